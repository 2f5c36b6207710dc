//! Keys that are many, and directories that are removed under those who use them.

use std::sync::Arc;

use tests::checker::Checker;
use tests::proxy::Action;
use tests::wait::eventually;
use zookeeper_client::CreateMode;

use crate::support::*;

/// F35 (V6): keys that are used once each leave nothing in the client nor at the server: the
/// directories are containers, and go.
#[tokio::test]
async fn many_keys_used_once_each_leave_nothing() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let tasks: Vec<_> = (0..50)
        .map(|task| {
            let locks = locks.clone();
            tokio::spawn(async move {
                for n in 0..60 {
                    let guard = locks.lock(format!("k:{task}:{n}")).await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(locks.stats().acquired, 3_000);
    eventually("all directories but that of the sessions are gone", || {
        server.children("/").iter().all(|name| name == "zookeeper" || name == "{lock-sessions}")
    })
    .await;
    assert_eq!(server.watches(), 0);
    nothing_left(&server, [locks]).await;
}

/// V6: a directory that was made for a creation that never came does not stay: the server
/// removes by itself only what has had a child.
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

/// V2, V6, V8: empty directories are removed every few milliseconds while clients come and go:
/// none of them ever sees that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_removed_under_those_who_use_them_are_not_noticed() {
    let (server, history) = (Arc::new(Zoo::churning(Default::default(), 3).await), History::new());
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(connect(&server.at(LONG)).await);
    }
    let mut tasks = Vec::new();
    for (nth, locks) in clients.iter().enumerate() {
        for task in 0..4 {
            let actor = history.actor(&format!("{nth}/{task}"), locks);
            tasks.push(tokio::spawn(async move {
                for round in 0..40 {
                    let key = format!("k{}", round % 3);
                    let (guard, _) = actor.acquire(&key, ms(20_000)).await;
                    actor.release(guard.unwrap()).await.unwrap();
                    // The key may be free for as long as the server needs to see it.
                    tokio::time::sleep(std::time::Duration::from_micros(fastrand::u64(0..8_000)))
                        .await;
                }
            }));
        }
    }
    // An operator does the same, but for all it finds.
    let removing = tokio::task::spawn_blocking({
        let server = server.clone();
        move || {
            for n in 0..60 {
                server.create(&format!("/probe{n}"), "", CreateMode::Container);
                server.delete(&format!("/probe{n}"));
            }
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    removing.await.unwrap();
    let report = history.check(Checker::new().exclusive());
    assert_eq!(report.grants, 6 * 4 * 40);
    nothing_left(&server, clients).await;
}

/// "A lock usable by two only in turn", and Curator's "two clients in alternation" (V2, V5):
/// each grant is the next one's, and none of them is asked for twice.
#[tokio::test]
async fn two_clients_that_take_turns_each_have_every_second_grant() {
    let (server, history) = (Zoo::start().await, History::new());
    let (a, b) = (connect(&server.at(LONG)).await, connect(&server.at(LONG)).await);
    let turns = |name: &str, locks: &lock_core::LockClient| {
        let actor = history.actor(name, locks);
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..100 {
                let guard = actor.acquire("k", ms(20_000)).await.0.unwrap();
                tokens.push(guard.token());
                actor.release(guard).await.unwrap();
            }
            tokens
        })
    };
    let (ours, theirs) = (turns("a", &a), turns("b", &b));
    let (ours, theirs) = (ours.await.unwrap(), theirs.await.unwrap());
    let mut both = [&ours[..], &theirs[..]].concat();
    both.sort_unstable();
    both.dedup();
    assert_eq!(both.len(), 200);
    history.check(Checker::new().exclusive());
    nothing_left(&server, [a, b]).await;
}
