//! Apache Curator's `InterProcessMutex` and ours: one holder, one line.

use std::time::Duration;

use lock_core::LockClient;
use tests::clock::now_ns;
use tests::curator::Event;
use tests::wait::{PATIENCE, within};
use tests::worker::Worker;

use crate::support::*;

#[tokio::test]
async fn what_java_holds_is_busy_for_us_until_it_is_released() {
    let both = both().await;
    let grant = both.java.acquire("j", PATH, PATIENCE).await.unwrap().expect("a free key");
    assert!(both.rust.lock(KEY).try_acquire().await.unwrap().is_none());
    let short = Duration::from_secs(3);
    assert!(both.rust.lock(KEY).wait(short).await.unwrap_err().is_timeout());
    let waiting = tokio::spawn(both.rust.lock(KEY).acquire());
    assert_eq!(both.line_of(2).await[0], grant.node);
    both.java.release("j").await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
    both.nobody_is_left().await;
}

#[tokio::test]
async fn what_we_hold_is_busy_for_java_until_it_is_released() {
    let both = both().await;
    let guard = both.rust.lock(KEY).await.unwrap();
    assert_eq!(both.java.acquire("j", PATH, Duration::ZERO).await.unwrap(), None);
    let waiting = both.java.acquire("j", PATH, PATIENCE);
    both.line_of(2).await;
    let released_ns = now_ns();
    guard.release().await.unwrap();
    let grant = waiting.await.unwrap().expect("a grant");
    assert!(grant.t_ns > released_ns, "granted while we held the key");
    both.java.release("j").await.unwrap();
    both.nobody_is_left().await;
}

/// Each stands where it came, and is granted when the one before it lets go.
#[tokio::test]
async fn java_and_rust_wait_in_one_line() {
    let both = both().await;
    let first = both.rust.lock("other").await.unwrap();
    let held = both.rust.lock(KEY).await.unwrap();
    // One claim a process: each of our waiters is a client of its own.
    let (mut java, mut rust, mut clients) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..6_usize {
        if number % 2 == 0 {
            java.push(both.java.acquire(&format!("j{number}"), PATH, PATIENCE));
        } else {
            let client = LockClient::connect(&url(&both.server)).await.unwrap();
            rust.push(tokio::spawn(client.lock(KEY).acquire()));
            clients.push(client);
        }
        both.line_of(number + 2).await;
    }
    let mut last_ns = now_ns();
    held.release().await.unwrap();
    for (pair, (java, rust)) in java.into_iter().zip(rust).enumerate() {
        let grant = within("Java's turn", java).await.unwrap().expect("a grant");
        assert!(grant.t_ns > last_ns);
        assert!(!rust.is_finished(), "the one behind was granted as well");
        last_ns = now_ns();
        both.java.release(&format!("j{}", 2 * pair)).await.unwrap();
        let guard = within("our turn", rust).await.unwrap().unwrap();
        last_ns = last_ns.max(now_ns());
        guard.release().await.unwrap();
    }
    first.release().await.unwrap();
    both.nobody_is_left().await;
}

#[tokio::test]
async fn each_sees_who_the_other_is() {
    let both = both().await;
    let guard = both.rust.lock(KEY).name("checkout").await.unwrap();
    let _java = both.java.acquire("j", PATH, PATIENCE);
    let nodes = both.line_of(2).await;
    let mut seen = both.rust.inspect(KEY).await.unwrap();
    let holder = seen.holders.pop().expect("a holder");
    let id: String = nodes[0][PATH.len() + 4..][..36].chars().filter(|c| *c != '-').collect();
    assert_eq!(holder.claim, id, "{nodes:?}");
    assert!(holder.token >= Some(guard.token()));
    let about = holder.about.expect("we say who we are");
    let pid = std::process::id();
    assert!(about.starts_with("host=") && about.ends_with(&format!("pid={pid} name=checkout")));
    assert_eq!(seen.waiters.len(), 1);
    // Curator's node says its address.
    let address = seen.waiters[0].about.as_ref().expect("Java says who it is");
    assert!(address.parse::<std::net::IpAddr>().is_ok(), "{address}");
    guard.release().await.unwrap();
}

/// The claim's node is at once what Java's `Revoker` writes to.
#[tokio::test]
async fn java_asks_us_to_give_the_lock_up() {
    let both = both().await;
    let guard = both.rust.lock(KEY).await.unwrap();
    let waiting = both.java.acquire("j", PATH, PATIENCE);
    let nodes = both.line_of(2).await;
    assert!(!guard.is_revoke_requested());
    both.java.revoke(&nodes[0]).await.unwrap();
    within("the word", guard.revoke_requested()).await;
    assert!(guard.is_held(), "it is a wish, not an order");
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().is_some());
}

#[tokio::test]
async fn we_ask_java_to_give_the_lock_up() {
    let both = both().await;
    assert!(!both.rust.request_revoke(KEY).await.unwrap(), "nobody holds it");
    both.java.make_revocable("j", true).await.unwrap();
    both.java.acquire("j", PATH, PATIENCE).await.unwrap().expect("a free key");
    let waiting = tokio::spawn(both.rust.lock(KEY).acquire());
    both.line_of(2).await;
    assert!(both.rust.request_revoke(KEY).await.unwrap());
    let revoked = |event: &Event| matches!(event, Event::Revoked { handle, .. } if handle == "j");
    both.java.event("the wish", PATIENCE, revoked).await;
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
    both.nobody_is_left().await;
}

#[tokio::test]
async fn a_java_holder_that_is_killed_is_followed_when_its_session_ends() {
    let mut both = both().await;
    both.java.acquire("j", PATH, PATIENCE).await.unwrap().expect("a free key");
    let waiting = tokio::spawn(both.rust.lock(KEY).acquire());
    both.line_of(2).await;
    both.java.kill().await;
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
    both.nobody_is_left().await;
}

#[tokio::test]
async fn a_rust_holder_that_is_killed_is_followed_by_java_when_its_session_ends() {
    let both = both().await;
    let mut rust = Worker::spawn(WORKER, &["--url", &url(&both.server)]);
    rust.ask(&format!("acquire {KEY} 9000")).await.expect_success();
    let waiting = both.java.acquire("j", PATH, PATIENCE);
    both.line_of(2).await;
    rust.kill();
    assert!(waiting.await.unwrap().is_some());
}

/// Many rounds of both, without anybody who says whose turn it is: what each holds, no other has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_in_alternation_never_overlap() {
    const ROUNDS: usize = 60;
    let both = both().await;
    let rust = async {
        let mut held = Vec::new();
        for _ in 0..ROUNDS {
            let guard = both.rust.lock(KEY).await.unwrap();
            let from_ns = now_ns();
            tokio::task::yield_now().await;
            held.push((from_ns, now_ns()));
            guard.release().await.unwrap();
        }
        held
    };
    let java = async {
        let mut held = Vec::new();
        for _ in 0..ROUNDS {
            let grant = both.java.acquire("j", PATH, PATIENCE).await.unwrap().expect("its turn");
            held.push((grant.t_ns, now_ns()));
            both.java.release("j").await.unwrap();
        }
        held
    };
    let (mut all, java) = tokio::join!(rust, java);
    all.extend(java);
    all.sort_unstable();
    assert_eq!(all.len(), 2 * ROUNDS);
    for pair in all.windows(2) {
        assert!(pair[0].1 < pair[1].0, "{pair:?} overlap");
    }
    both.nobody_is_left().await;
}
