//! The value that a leader publishes at the server, and whom it counts for.

use lock_core::Key;
use lock_core::backend::{Backend, ClaimId, Follower, Following, Terms};
use lock_core::redis::Redis;
use tests::redis::RedisServer;

use crate::support::*;

const VALUE: &str = "lock:{k}:value";
const FOLLOWERS: &str = "lock:{k}:followers";

const LEASE: std::time::Duration = ms(9_000);

fn terms() -> Terms {
    Terms { tokens_max: 16, ..Terms::exclusive(LEASE) }
}

fn candidate(store: &Redis, value: &str) -> Asker {
    let id = ClaimId::from_bits(fastrand::u128(..));
    let claim = store.candidate(&Key::new("k").unwrap(), id, terms(), &value.into());
    Asker { claim, id: id.to_string() }
}

struct Watcher(Box<dyn Follower>);

fn follower(store: &Redis) -> Watcher {
    Watcher(store.follow(&Key::new("k").unwrap(), LEASE))
}

impl Watcher {
    /// The leader's value that is told.
    async fn leader(&mut self) -> Option<String> {
        let Following { leader, .. } = answered!(self.0.leader());
        leader.map(|leader| leader.value.to_string())
    }
}

async fn both(server: &RedisServer) -> (Redis, Redis) {
    (store(server).await, store(server).await)
}

#[tokio::test]
async fn what_is_published_ends_behind_the_lease_and_leaves_nothing() {
    let server = server();
    let (one, two) = both(&server).await;
    let (mut leader, mut follower) = (candidate(&one, "a b"), follower(&two));
    leader.takes().await;
    assert_eq!(follower.leader().await.as_deref(), Some("a b"));
    assert!(left(&server, VALUE) <= 2 * LEASE && left(&server, FOLLOWERS) <= ms(30_000));
    server.move_clock(8_000);
    leader.renews().await;
    assert!(left(&server, VALUE) > LEASE, "a renewal goes for both");
    assert_eq!(follower.leader().await.as_deref(), Some("a b"));
    // It dies.
    server.move_clock(9_001);
    assert_eq!(follower.leader().await, None, "what is left of it counts for nobody");
    server.move_clock(18_001);
    assert_eq!(keys(&server), [FOLLOWERS]);
    follower.0.leave().await.unwrap();
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_resignation_takes_back_what_is_its_own_and_no_more() {
    let server = server();
    let (one, two) = both(&server).await;
    let (mut old, mut follower) = (candidate(&one, "old"), follower(&two));
    old.takes().await;
    assert_eq!(follower.leader().await.as_deref(), Some("old"));
    // Its key is taken, by hand, and another leads.
    server.command::<()>(&["DEL", LOCK]);
    assert_eq!(follower.leader().await, None);
    let mut new = candidate(&two, "new");
    new.takes().await;
    old.is_lost().await;
    assert_eq!(follower.leader().await.as_deref(), Some("new"));
    old.leaves().await;
    assert_eq!(follower.leader().await.as_deref(), Some("new"));
    new.releases().await;
    assert_eq!(follower.leader().await, None);
    follower.0.leave().await.unwrap();
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// A renewal that comes back late must not publish over the next leader.
#[tokio::test]
async fn one_that_does_not_hold_the_key_publishes_nothing() {
    let server = server();
    let (one, two) = both(&server).await;
    let (mut old, mut follower) = (candidate(&one, "old"), follower(&two));
    old.takes().await;
    server.move_clock(9_001);
    assert!(sets_if_absent(&server), "a client of another library");
    assert_eq!(follower.leader().await, None);
    old.is_lost().await;
    let mut waits = candidate(&one, "waits");
    waits.waits().await;
    assert_eq!(follower.leader().await, None);
    waits.leaves().await;
}

/// The server forgets who follows, or the line to them breaks: they ask again by themselves.
#[tokio::test]
async fn those_who_follow_hear_of_the_next_over_a_new_connection() {
    let server = server();
    let (one, two) = both(&server).await;
    let mut follower = follower(&two);
    assert_eq!(follower.leader().await, None);
    server.command::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    server.command::<u64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    within("it is to ask", follower.0.changed()).await;
    assert_eq!(follower.leader().await, None);
    let mut leader = candidate(&one, "a");
    leader.takes().await;
    within("a push", follower.0.changed()).await;
    assert_eq!(follower.leader().await.as_deref(), Some("a"));
    leader.releases().await;
    within("a push", follower.0.changed()).await;
    assert_eq!(follower.leader().await, None);
}

/// The followers that died are dropped as others come, and none lives on by itself.
#[tokio::test]
async fn dead_followers_are_forgotten() {
    let server = server();
    let (one, two) = both(&server).await;
    let mut dead = [(); 5].map(|()| follower(&one));
    for follower in &mut dead {
        assert_eq!(follower.leader().await, None);
    }
    assert_eq!(server.command::<u64>(&["ZCARD", FOLLOWERS]), 5);
    server.move_clock(20_000);
    let mut living = follower(&two);
    assert_eq!(living.leader().await, None);
    assert_eq!(server.command::<u64>(&["ZCARD", FOLLOWERS]), 6);
    server.move_clock(10_001);
    assert_eq!(living.leader().await, None);
    assert_eq!(server.command::<u64>(&["ZCARD", FOLLOWERS]), 1);
    drop(dead);
    server.move_clock(30_001);
    assert_eq!(keys(&server), Vec::<String>::new());
}
