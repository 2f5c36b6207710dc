//! Keys that are many, and directories that are removed under those who use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tests::chance;
use tests::checker::Checker;
use tests::proxy::{Action, Match};
use tests::wait::eventually;
use tests::zookeeper::ZooKeeperOptions;

use crate::support::*;

/// V6: a directory that was made for a creation that never came does not stay: a server removes
/// only what has had a child, so it has had one.
#[tokio::test]
async fn a_directory_whose_first_node_was_never_made_does_not_stay() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let trap = proxy.trap(first_create_of("k"), Action::DropRequest);
    assert!(locks.lock("k").try_acquire().await.unwrap_err().is_unavailable());
    trap.sprung().await;
    eventually("the directory is gone", || server.node("/k").is_none()).await;
    assert_eq!(server.sessions().len(), 1, "the session lives");
    nothing_left(&server, [locks]).await;
}

/// V6: a client whose machine is gone when directories are made, and their first node is not,
/// leaves none of them.
#[tokio::test]
async fn directories_of_a_client_that_is_gone_before_their_first_node_do_not_stay() {
    let server = Zoo::start().await;
    let permit = Match::verb("CREATE").containing("/k/leases/");
    // The directory of a line for permits has one above it: the second creation does not find it
    // either.
    let line_of_permits = create_of("k/locks").after(2);
    let firsts = [(false, first_create_of("k")), (true, line_of_permits), (true, permit)];
    for (nth, (is_permit, first)) in firsts.into_iter().enumerate() {
        let (proxy, locks) = behind_proxy(&server, SHORT).await;
        let trap = proxy.trap(first, Action::DropRequest);
        let acquire = match is_permit {
            true => tokio::spawn(locks.lock("k").permits(2).acquire()),
            false => tokio::spawn(locks.lock("k").acquire()),
        };
        trap.sprung().await;
        proxy.refuse();
        acquire.abort();
        let removed = || server.log().matches("delete candidate container: /k\n").count();
        eventually("the server removed it", || removed() > nth).await;
        eventually("the directories are gone", || server.node("/k").is_none()).await;
        nothing_left(&server, [locks]).await;
    }
}

/// V2, V6, V8: empty directories are removed every few milliseconds while clients come and go:
/// none of them ever sees that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_removed_under_those_who_use_them_are_not_noticed() {
    let server = Zoo::churning(ZooKeeperOptions::new(), 3).await;
    let history = History::new();
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(connect(&server.at(LONG)).await);
    }
    let (mut tasks, is_enough) = (Vec::new(), Arc::new(AtomicBool::new(false)));
    for (nth, locks) in clients.iter().enumerate() {
        for task in 0..4 {
            let (actor, is_enough) =
                (history.actor(&format!("{nth}/{task}"), locks), is_enough.clone());
            let mut rng = Rng::with_seed(chance::seed() + nth as u64 * 4 + task);
            tasks.push(tokio::spawn(async move {
                let mut round = 0;
                while round < 40 || !is_enough.load(Ordering::Relaxed) {
                    round += 1;
                    let key = format!("k{}", round % 3);
                    let (guard, _) = actor.acquire(&key, ms(20_000)).await;
                    actor.release(guard.unwrap()).await.unwrap();
                    // The key may be free for as long as the server needs to see it.
                    tokio::time::sleep(Duration::from_micros(rng.u64(0..8_000))).await;
                }
                round
            }));
        }
    }
    let removed = || server.log().matches("delete candidate container: /k").count();
    eventually("directories were removed", || removed() > 20).await;
    is_enough.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    for task in tasks {
        rounds += task.await.unwrap();
    }
    let report = history.check(Checker::new().exclusive());
    assert_eq!(report.grants, rounds);
    nothing_left(&server, clients).await;
}

/// "One subscription per key until the limit" (V5, V6): a client has one connection and one
/// session, whatever it holds and waits for, and one watch for each place in a line.
#[tokio::test]
async fn a_client_has_one_session_however_many_keys_it_holds_and_waits_for() {
    const KEYS: usize = 100;
    let server = Zoo::start().await;
    let (proxy, holder) = behind_proxy(&server, LONG).await;
    let waiter = connect(&with_session(&proxy.url(), LONG)).await;
    let (mut guards, mut waiting) = (Vec::new(), Vec::new());
    for n in 0..KEYS {
        guards.push(holder.lock(format!("k:{n}")).await.unwrap());
        waiting.push(tokio::spawn(waiter.lock(format!("k:{n}")).wait(ms(30_000)).acquire()));
    }
    for n in 0..KEYS {
        server.line_of(&format!("k:{n}"), 2).await;
    }
    eventually("a renewal of all", || holder.stats().renewals >= KEYS as u64).await;
    eventually("two watches a key", || server.watches() == 2 * KEYS as u64).await;
    assert_eq!((proxy.counters().connections, server.sessions().len()), (2, 2));
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    nothing_left(&server, [holder, waiter]).await;
}

/// F06 (V3): its link breaks while it holds so many keys that their watches do not fit one request of the
/// client library, which cannot set them anew in two. It has watched fewer, and looks at the others.
#[tokio::test]
async fn a_client_with_more_watches_than_fit_one_request_keeps_its_session_over_a_cut() {
    const KEYS: u64 = 140;
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let mut guards = Vec::new();
    for n in 0..KEYS {
        guards.push(locks.lock(format!("{n:0>480}")).await.unwrap());
    }
    let renewed = |rounds: u64| {
        assert!(guards.iter().all(|guard| guard.is_held()), "its session is there");
        locks.stats().renewals >= KEYS * rounds
    };
    eventually("a renewal of all", || renewed(2)).await;
    // Two for each key, of some 500 bytes.
    let watches = server.watches();
    assert!((200..2 * KEYS).contains(&watches), "{watches} watches");
    proxy.cut();
    let rounds = locks.stats().renewals / KEYS;
    eventually("more than a session of renewals", || renewed(rounds + 6)).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    nothing_left(&server, [locks]).await;
}

/// Curator's "two clients in alternation" (V2, V5): the grants of two clients that ask again at
/// once take turns.
#[tokio::test]
async fn two_clients_that_ask_again_at_once_take_turns() {
    let (server, history) = (Zoo::start().await, History::new());
    let (a, b) = (connect(&server.at(LONG)).await, connect(&server.at(LONG)).await);
    let turns = |name: &'static str, locks: &lock_core::LockClient| {
        let actor = history.actor(name, locks);
        tokio::spawn(async move {
            let mut grants = Vec::new();
            for _ in 0..100 {
                let guard = actor.acquire("k", ms(20_000)).await.0.unwrap();
                grants.push((guard.token(), name));
                actor.release(guard).await.unwrap();
            }
            grants
        })
    };
    let (ours, theirs) = (turns("a", &a), turns("b", &b));
    let mut both = [ours.await.unwrap(), theirs.await.unwrap()].concat();
    both.sort_unstable();
    let turns = both.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!(turns > 100, "{turns} turns in 200 grants");
    history.check(Checker::new().exclusive());
    nothing_left(&server, [a, b]).await;
}
