//! Who is told of a release, and who comes first then.

use std::time::{Duration, Instant};

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Change, Claim as _, ClaimId, Renewal, Terms, Withdrawal,
};
use lock_core::redis::Redisson;
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

type RedissonClaim = <Redisson as Backend>::Claim;

const CHANNEL: &str = "redisson_lock__channel:{k}";

async fn process(server: &RedisServer) -> Redisson {
    Redisson::connect(&format!("{}?layout=redisson", server.url())).await.unwrap()
}

fn claim(process: &Redisson, id: u128) -> RedissonClaim {
    let terms = Terms::exclusive(Duration::from_secs(60));
    process.claim(&Key::new("k").unwrap(), ClaimId::from_bits(id), terms)
}

async fn takes(claim: &mut RedissonClaim) {
    match claim.attempt().await.unwrap() {
        Attempt::Granted(_) => {}
        blocked => panic!("{blocked:?}"),
    }
}

async fn is_blocked(claim: &mut RedissonClaim) {
    match claim.attempt().await.unwrap() {
        Attempt::Blocked { .. } => {}
        granted => panic!("{granted:?}"),
    }
}

/// By the message that Redisson sends, whoever sends it.
#[tokio::test]
async fn a_release_is_heard_and_whoever_waits_no_more_listens_no_more() {
    let server = RedisServer::start();
    let (one, two) = (process(&server).await, process(&server).await);
    let (mut holder, mut next) = (claim(&one, 1), claim(&two, 2));
    takes(&mut holder).await;
    assert_eq!(server.subscribers(CHANNEL), 0, "nobody waits");
    is_blocked(&mut next).await;
    assert_eq!(server.subscribers(CHANNEL), 1);
    assert_eq!(holder.withdraw().await.unwrap(), Withdrawal::Released);
    assert_eq!(within("the release is heard", next.changed()).await, Change::Here);
    takes(&mut next).await;
    eventually("who holds the key listens no more", || server.subscribers(CHANNEL) == 0).await;
    let mut last = claim(&one, 3);
    is_blocked(&mut last).await;
    // As `forceUnlock` of Redisson does. The old holder finds out at its renewal.
    server.command::<()>(&["DEL", "k"]);
    server.command::<u64>(&["PUBLISH", CHANNEL, "0"]);
    assert_eq!(within("the release is heard", last.changed()).await, Change::Here);
    takes(&mut last).await;
    assert_eq!(next.renew().await.unwrap(), Renewal::Lost);
    last.withdraw().await.unwrap();
    next.withdraw().await.unwrap();
    eventually("nobody listens", || server.subscribers(CHANNEL) == 0).await;
}

/// A connection that was cut comes back with all that claims wait for.
#[tokio::test]
async fn who_waits_listens_again_where_its_connection_was_cut() {
    let server = RedisServer::start();
    let (one, two) = (process(&server).await, process(&server).await);
    let (mut holder, mut next) = (claim(&one, 1), claim(&two, 2));
    takes(&mut holder).await;
    is_blocked(&mut next).await;
    for _ in 0..3 {
        server.command::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_eq!(within("the cut is told", next.changed()).await, Change::Elsewhere);
        eventually("it listens again", || server.subscribers(CHANNEL) == 1).await;
        is_blocked(&mut next).await;
    }
    holder.withdraw().await.unwrap();
    assert_eq!(within("the release is heard", next.changed()).await, Change::Here);
    takes(&mut next).await;
    next.withdraw().await.unwrap();
}

/// Claims come and go faster than the server is told: what is wanted at the end is heard.
#[tokio::test]
async fn a_channel_that_is_wanted_again_at_once_is_heard() {
    let server = RedisServer::start();
    let (one, two) = (process(&server).await, process(&server).await);
    let mut holder = claim(&one, 1);
    takes(&mut holder).await;
    for id in 2..100 {
        let mut next = claim(&two, id);
        is_blocked(&mut next).await;
        next.withdraw().await.unwrap();
    }
    let mut last = claim(&two, 100);
    is_blocked(&mut last).await;
    eventually("it listens", || server.subscribers(CHANNEL) == 1).await;
    holder.withdraw().await.unwrap();
    assert_eq!(within("the release is heard", last.changed()).await, Change::Here);
    takes(&mut last).await;
    last.withdraw().await.unwrap();
    eventually("nobody listens", || server.subscribers(CHANNEL) == 0).await;
}

/// So one that only lingers is given back.
#[tokio::test]
async fn a_holder_is_told_that_somebody_tried() {
    let server = RedisServer::start();
    let (one, two) = (process(&server).await, process(&server).await);
    let mut holder = claim(&one, 1);
    takes(&mut holder).await;
    let terms = Terms { queues: false, ..Terms::exclusive(Duration::from_secs(60)) };
    let mut hasty = two.claim(&Key::new("k").unwrap(), ClaimId::from_bits(2), terms);
    is_blocked(&mut hasty).await;
    assert_eq!(within("the holder is told", holder.changed()).await, Change::Tried);
    assert_eq!(server.subscribers(CHANNEL), 0, "it does not wait");
    hasty.withdraw().await.unwrap();
    holder.withdraw().await.unwrap();
}

/// A holder learns at its renewal that others wait, in Rust or by listening alone. It lets them go first.
#[tokio::test]
async fn a_key_that_others_want_is_left_to_them_for_a_moment() {
    let server = RedisServer::start();
    let (one, two) = (process(&server).await, process(&server).await);
    let wanted = async |holder: &mut RedissonClaim| match holder.renew().await.unwrap() {
        Renewal::Held(grant) => grant.wanted,
        Renewal::Lost => panic!("it holds the key"),
    };
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
    let mut java = client.get_async_pubsub().await.unwrap();
    let mut holder = claim(&one, 1);
    takes(&mut holder).await;
    assert!(!wanted(&mut holder).await);
    java.subscribe(CHANNEL).await.unwrap();
    assert!(wanted(&mut holder).await, "who listens waits");
    java.unsubscribe(CHANNEL).await.unwrap();
    assert!(!wanted(&mut holder).await);
    let mut next = claim(&two, 2);
    is_blocked(&mut next).await;
    assert_eq!(within("the holder is told", holder.changed()).await, Change::Here);
    assert!(wanted(&mut holder).await);
    let began = Instant::now();
    holder.withdraw().await.unwrap();
    let mut again = claim(&one, 3);
    takes(&mut again).await;
    assert!(began.elapsed() >= Duration::from_millis(5), "the others had no time to ask");
    again.withdraw().await.unwrap();
    takes(&mut next).await;
    next.withdraw().await.unwrap();
}
