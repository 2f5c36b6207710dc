//! A machine that was suspended: its monotonic clock stood still, and its leases went on.

#![cfg(any(target_os = "linux", target_os = "android"))]
#![allow(clippy::disallowed_methods)] // the clock is paused

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::poll;
use lock_core::error::{LossReason, RunError};
use lock_core::{LockClient, test_util};
use tokio::sync::Notify;
use tokio::time::{Instant, advance};

type Test<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The suspensions are those of the whole process, so each test has it alone, with a runtime that
/// is gone before the next one begins.
fn alone(test: impl Future<Output = Test>) -> Test {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build()?;
    runtime.block_on(test)
}

/// The machine is suspended, and this process runs on for as long as it takes it at most to know.
async fn suspend(time: Duration) {
    test_util::suspend(time);
    advance(Duration::from_millis(1)).await;
}

#[test]
fn a_holder_knows_at_its_first_look_that_its_lease_has_ended() -> Test {
    alone(async {
        let locks = LockClient::memory();
        let guard = locks.lock("k").lease(Duration::from_secs(10)).await?;
        // The renewal waits for its timer, which knows nothing of a suspension.
        tokio::time::sleep(Duration::from_millis(100)).await;
        suspend(Duration::from_secs(5)).await;
        assert!(guard.is_held());
        assert!(guard.lease_left() < Duration::from_secs(5), "{:?}", guard.lease_left());
        suspend(Duration::from_secs(5)).await;
        assert!(!guard.is_held() && guard.lease_left().is_zero());
        let lost = poll!(pin!(guard.lost()));
        assert!(
            matches!(lost, std::task::Poll::Ready(lost) if lost.reason() == LossReason::Expired)
        );
        assert!(locks.lock("k").await?.token() > guard.token());
        Ok(())
    })
}

#[test]
fn a_waiter_has_the_key_as_soon_as_somebody_sees_that_the_lease_has_ended() -> Test {
    alone(async {
        let locks = LockClient::memory();
        let guard = locks.lock("k").lease(Duration::from_secs(9)).await?;
        let waits = tokio::spawn(locks.lock("k").wait(Duration::from_secs(600)).acquire());
        tokio::time::sleep(Duration::from_secs(1)).await;
        suspend(Duration::from_secs(60)).await;
        assert!(guard.release().await.is_err(), "it is over");
        let soon = Duration::from_millis(100);
        tokio::time::timeout(soon, waits).await???.release().await?;
        Ok(())
    })
}

#[test]
fn work_that_wakes_up_on_a_resumed_machine_does_nothing_more() -> Test {
    alone(async {
        let locks = LockClient::memory();
        let (wake, went_on) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let (woken, flag) = (wake.clone(), went_on.clone());
        let work = locks.lock("k").lease(Duration::from_secs(10)).run(async move |_| {
            woken.notified().await;
            flag.store(true, Ordering::SeqCst);
        });
        let mut work = pin!(work);
        while locks.stats().held == 0 {
            assert!(poll!(work.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
        assert!(poll!(work.as_mut()).is_pending());
        suspend(Duration::from_secs(60)).await;
        wake.notify_one();
        assert!(matches!(work.await, Err(RunError::Lost(_))));
        assert!(!went_on.load(Ordering::SeqCst));
        Ok(())
    })
}

#[test]
fn timers_that_are_set_after_a_suspension_are_due_in_their_own_time() -> Test {
    alone(async {
        let locks = LockClient::memory();
        suspend(Duration::from_secs(3_600)).await;
        let held = locks.lock("k").lease(Duration::from_secs(1)).await?;
        let begun = Instant::now();
        let error = locks.lock("k").wait(Duration::from_millis(100)).retries(1).await.unwrap_err();
        assert!(error.is_timeout());
        assert!(begun.elapsed() <= Duration::from_millis(202), "{:?}", begun.elapsed());
        // Renewed in time, for many times its lease.
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(held.is_held());
        Ok(())
    })
}

#[test]
fn a_task_that_does_nothing_but_wait_for_the_loss_is_woken_when_the_next_renewal_was_due() -> Test {
    alone(async {
        let locks = LockClient::memory();
        let guard = locks.lock("k").lease(Duration::from_secs(9)).await?;
        let lost = tokio::spawn(guard.lost());
        tokio::time::sleep(Duration::from_secs(1)).await;
        test_util::suspend(Duration::from_secs(60));
        let resumed = Instant::now();
        assert_eq!(lost.await?.reason(), LossReason::Expired);
        assert!(resumed.elapsed() <= Duration::from_millis(2_005), "{:?}", resumed.elapsed());
        Ok(())
    })
}
