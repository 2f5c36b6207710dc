//! Faults at random, judged by the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tests::checker::Checker;
use tests::proxy::{Action, Direction, Flow, Match, Proxy, Trap};
use tests::wait::eventually;

use crate::support::*;

const CLIENTS: usize = 4;

/// How long faults happen.
const SPAN: Duration = Duration::from_secs(8);

/// The next fault, and how long it stays: now and then for longer than a session lasts.
fn fault(proxy: &Proxy) -> (Option<Trap>, Duration) {
    let verbs = ["CREATE", "GETCHILDREN", "GETDATA", "DELETE", "SETDATA", "SYNC", "EXISTS"];
    let which = Match::verb(verbs[fastrand::usize(..verbs.len())]);
    let span = ms(fastrand::u64(20..if fastrand::u8(..3) == 0 { 4_000 } else { 800 }));
    let trap = match fastrand::u8(..10) {
        0 => {
            return (None, {
                proxy.cut();
                ms(5)
            });
        }
        1 => {
            return (None, {
                proxy.reset();
                ms(5)
            });
        }
        2 => {
            return (None, {
                proxy.refuse();
                span
            });
        }
        3 => {
            return (None, {
                proxy.black_hole();
                span
            });
        }
        4 => {
            return (None, {
                proxy.set(Direction::ToServer, Flow::BlackHole);
                span
            });
        }
        5 => {
            return (None, {
                proxy.set(Direction::ToClient, Flow::BlackHole);
                span
            });
        }
        6 => proxy.trap(which, Action::SwallowReply),
        7 => proxy.trap(which, Action::DropRequest),
        8 => proxy.trap(which, Action::HoldReply),
        _ => {
            return (None, {
                proxy.drop_pushes(true);
                span
            });
        }
    };
    (Some(trap), span)
}

/// Takes keys and gives them back until told to end; how many it had, and lost.
async fn use_locks(actor: Actor, ended: Arc<AtomicBool>) -> (u64, u64) {
    let (mut grants, mut losses) = (0, 0);
    while !ended.load(Ordering::SeqCst) {
        let key = format!("k{}", fastrand::u8(..2));
        let (guard, _) = actor.acquire(&key, ms(fastrand::u64(100..3_000))).await;
        let Ok(guard) = guard else { continue };
        grants += 1;
        // Mostly short; the others see a link fail, and its end.
        let hold = ms(fastrand::u64(..if fastrand::u8(..12) == 0 { 3_000 } else { 8 }));
        if tokio::time::timeout(hold, guard.lost()).await.is_ok() {
            actor.lost(&guard).await;
            losses += 1;
        } else if guard.is_held() {
            assert!(actor.write(&guard).await || !guard.is_held(), "refused, and not told");
        }
        // `NotHeld` and `Unavailable` are answers too; the history has them.
        drop(actor.release(guard).await);
    }
    (grants, losses)
}

/// F10 to F14, F18, F25 (V1, V2, V4, V6): clients behind links that fail in every way, at any
/// moment: no two of them hold a key at once, tokens grow, waits end, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_fail_at_random_cost_no_exclusion_and_leave_nothing() {
    let (server, history) = (Zoo::start().await, History::new());
    let ended = Arc::new(AtomicBool::new(false));
    let (mut clients, mut proxies, mut users) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..CLIENTS {
        let (proxy, locks) = behind_proxy(&server, SHORT).await;
        for task in 0..2 {
            let actor = history.actor(&format!("{nth}/{task}"), &locks);
            users.push(tokio::spawn(use_locks(actor, ended.clone())));
        }
        clients.push(locks);
        proxies.push(Arc::new(proxy));
    }
    let start = Instant::now();
    let mut trouble = Vec::new();
    for proxy in &proxies {
        let proxy = proxy.clone();
        trouble.push(tokio::spawn(async move {
            while start.elapsed() < SPAN {
                let (trap, span) = fault(&proxy);
                tokio::time::sleep(span).await;
                drop(trap);
                proxy.resume();
                tokio::time::sleep(ms(fastrand::u64(..300))).await;
            }
        }));
    }
    for one in trouble {
        one.await.unwrap();
    }
    ended.store(true, Ordering::SeqCst);
    let (mut grants, mut losses) = (0, 0);
    for user in users {
        let (granted, lost) = user.await.unwrap();
        (grants, losses) = (grants + granted, losses + lost);
    }
    assert!(grants > CLIENTS as u64 && losses < grants, "{grants} grants, {losses} losses");
    let report = history.check(Checker::new().exclusive());
    assert_eq!(report.grants, grants);
    eventually("all links work", || proxies.iter().all(|p| p.counters().open <= 1)).await;
    nothing_left(&server, clients).await;
}
