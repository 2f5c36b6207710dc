//! F41: members that are killed, frozen, slow, or come back without their data.

use std::time::Instant;

use tests::proxy::{Direction, Flow, Proxy};
use tests::redis::RedisOptions;
use tests::stalls::Stopwatch;
use tests::wait::within;

use crate::support::*;

/// V2, V4, V6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_go_on_while_a_minority_is_killed_or_frozen() {
    for (members, away) in [(3, 1), (5, 2)] {
        let mut servers = Servers::start(members);
        let locks = servers.ready().await;
        let mut last = lock(&locks, "k").await.token();
        for frozen in [false, true] {
            for server in &mut servers.all[..away] {
                if frozen { server.freeze() } else { server.kill() }
            }
            for _ in 0..20 {
                let guard = lock(&locks, "k").await;
                assert!(
                    guard.token() > last,
                    "a finding of safety: {} after {last}",
                    guard.token()
                );
                last = guard.token();
                guard.release().await.unwrap();
            }
            for server in &mut servers.all[..away] {
                if frozen { server.thaw() } else { server.restart() }
            }
        }
        tests::wait::eventually("nothing is left", || servers.left().is_empty()).await;
    }
}

/// V3, V4, V8: and it comes back with the members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_never_grants_and_a_holder_of_a_majority_is_told_when_it_goes() {
    let mut servers = Servers::start(3);
    let locks = servers.ready().await;
    let guard = lock(&locks, "held").await;
    let before = guard.token();
    servers.all[0].kill();
    servers.all[2].kill();
    within("the loss", guard.lost()).await;
    for key in ["held", "free"] {
        let asked = Stopwatch::start();
        let options = options().with_wait(ms(1_000));
        let error = locks.lock(key).options(options).await.unwrap_err();
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
        assert!(asked.own() < ms(3_500), "{:?}", asked.elapsed());
    }
    drop(guard);
    servers.all[0].restart();
    servers.all[2].restart();
    // Two lost their data: they come back when all are past their quarantine.
    let guard = within("a grant", async {
        loop {
            if let Ok(guard) = locks.lock("held").options(options()).await {
                return guard;
            }
        }
    });
    assert!(guard.await.token() > before);
}

/// V4: a slow member costs nothing but its share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_minority_holds_up_nobody() {
    let servers = Servers::start(3);
    let proxy = Proxy::start(servers.all[0].addr());
    let others = servers.all[1..].iter().map(tests::redis::RedisServer::addr);
    let url = url_of(std::iter::once(proxy.addr()).chain(others), "lease_max=1500ms");
    let locks = lock_core::LockClient::connect(&url).await.unwrap();
    drop(lock(&locks, "k").await);
    proxy.set(Direction::ToClient, Flow::Delay(ms(700)));
    let begun = Stopwatch::start();
    for _ in 0..10 {
        lock(&locks, "k").await.release().await.unwrap();
    }
    assert!(begun.own() < ms(2_000), "{:?}", begun.elapsed());
}

/// V1, V2: whatever a member lost, it does not grant what it had granted, for the longest lease;
/// then it is one of a majority again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_may_have_lost_writes_is_kept_away_and_then_counts() {
    for (options, how) in [
        (RedisOptions::new(), "empty"),
        (RedisOptions::new(), "flushed"),
        (RedisOptions::new().aof(), "with its file"),
    ] {
        let mut servers = Servers::with(3, &options);
        let locks = servers.ready().await;
        let other = servers.client().await;
        servers.all[2].freeze();
        // Held at the first two alone.
        let guard = lock(&locks, "k").await;
        let before = servers.enrolment(0).expect("a member");
        match how {
            "flushed" => servers.all[0].command(&["FLUSHALL"]),
            _ => servers.all[0].restart(),
        }
        servers.all[2].thaw();
        let lost_at = Instant::now();
        while guard.is_held() && lost_at.elapsed() < LEASE_MAX * 2 {
            let asked = other.lock("k").options(crate::support::options()).try_acquire().await;
            // It may have taken a while, and the guard be lost since.
            assert!(
                !(matches!(asked, Ok(Some(_))) && guard.is_held()),
                "a finding of safety: two holders, {how}"
            );
        }
        drop(guard);
        servers.repaired(0, &before).await;
        assert!(lost_at.elapsed() >= LEASE_MAX, "{how}: {:?}", lost_at.elapsed());
        // Without it there is no majority.
        servers.all[1].kill();
        lock(&other, "k").await.release().await.unwrap();
    }
}

/// V3: a fence beyond what a script can tell apart gives no token twice: the acquire is told the key,
/// and how to mend it.
#[tokio::test]
async fn a_fence_beyond_what_a_token_can_be_is_an_error_that_says_how_to_mend_it() {
    let servers = Servers::start(3);
    let locks = servers.ready().await;
    for server in &servers.all {
        server.command::<()>(&["SET", "lock:{k}:fence", "9007199254740992:1"]);
    }
    let error = locks.lock("k").options(options()).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error:?}");
    let said = format!("{error} {:?}", std::error::Error::source(&error));
    assert!(said.contains("`DEL lock:{k}:fence`"), "{said}");
    for server in &servers.all {
        assert_eq!(server.command::<u64>(&["DEL", "lock:{k}:fence"]), 1);
    }
    lock(&locks, "k").await.release().await.unwrap();
}
