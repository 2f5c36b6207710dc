//! The workers of a quorum: the caller and the conductor, and no task of the application's runtime.

use std::thread;
use std::time::Duration;

use lock_core::LockClient;
use lock_core::backend::FaultKind;
use lock_core::memory::Memory;
use lock_core::options::Background;
use lock_core::quorum::Quorum;
use lock_core::test_util::{Act, Script, Scripted, Verb};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::ms;

const LEASE: Duration = ms(9_000);

/// A client whose conductor is on a thread of its own.
async fn client() -> (Vec<Memory>, Vec<Script>, LockClient) {
    let stores: Vec<_> = (0..3).map(|_| Memory::new()).collect();
    let (members, scripts): (Vec<_>, Vec<_>) =
        stores.iter().map(|store| Scripted::new(store.clone())).unzip();
    let quorum = Quorum::new(members).unwrap();
    let builder = LockClient::builder_with(quorum).background(Background::Thread);
    (stores, scripts, builder.connect().await.unwrap())
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Blocks the runtime until `holds` is true, for twenty seconds at most.
fn blocked_until(holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        thread::sleep(ms(2));
    }
    panic!("after 20 s it still did not hold");
}

/// Until no task is left.
async fn ended() {
    let ended = async {
        while tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(ms(20_000), ended).await.unwrap();
}

#[tokio::test]
async fn a_free_key_costs_no_task() {
    let (_, scripts, locks) = client().await;
    for third in [Act::Ok, Act::Slow(ms(1))] {
        scripts[2].always(Verb::Attempt, third);
        for _ in 0..100 {
            let guard = locks.lock("k").await.unwrap();
            assert_eq!(tasks(), 0, "{third:?}");
            guard.release().await.unwrap();
            if third == Act::Ok {
                assert_eq!(tasks(), 0);
            }
            ended().await;
        }
    }
}

#[tokio::test]
async fn what_a_member_owes_when_a_claim_goes_is_one_task_at_most_that_ends() {
    let (stores, scripts, locks) = client().await;
    scripts[2].always(Verb::Attempt, Act::Stuck);
    let guard = locks.lock("k").await.unwrap();
    assert_eq!(tasks(), 0);
    guard.release().await.unwrap();
    // None where the conductor was asked for it, which it is behind a hold that took long.
    assert!(tasks() <= 1);
    scripts[2].heal();
    ended().await;
    blocked_until(|| stores.iter().all(|store| store.keys() == 0));
}

#[tokio::test]
async fn a_hold_is_renewed_though_the_runtime_is_blocked() {
    let (_, scripts, locks) = client().await;
    // A member that is late was asked by the caller, who is blocked then.
    for third in [Act::Ok, Act::Slow(ms(20)), Act::Never] {
        scripts[2].always(Verb::Attempt, third);
        let guard = locks.lock("k").lease(LEASE).await.unwrap();
        let renewals = locks.stats().renewals;
        blocked_until(|| locks.stats().renewals > renewals);
        assert!(guard.is_held(), "{third:?}");
        guard.release().await.unwrap();
        scripts[2].heal();
    }
}

#[tokio::test]
async fn a_guard_dropped_in_a_blocked_runtime_gives_the_key_up_at_every_member() {
    let (stores, scripts, locks) = client().await;
    for third in [Act::Ok, Act::Err(FaultKind::Transient)] {
        let guard = locks.lock("k").lease(ms(60_000)).await.unwrap();
        // Tried again after a pause.
        scripts[2].next(Verb::Withdraw, third);
        drop(guard);
        blocked_until(|| stores.iter().all(|store| store.keys() == 0));
    }
}

/// The timers of its pauses were made in a runtime that is blocked since.
#[tokio::test]
async fn a_withdrawal_goes_on_trying_though_its_caller_is_blocked() {
    let (stores, scripts, locks) = client().await;
    let guard = locks.lock("k").lease(ms(60_000)).await.unwrap();
    for script in &scripts[..2] {
        (0..4).for_each(|_| script.next(Verb::Withdraw, Act::Err(FaultKind::Transient)));
    }
    let release = timeout(Duration::ZERO, guard.release()).await;
    assert!(release.is_err(), "a majority has not answered");
    blocked_until(|| stores.iter().all(|store| store.keys() == 0));
}
