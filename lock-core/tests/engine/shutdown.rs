//! Ends: of the client, of the runtime.

use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lock_core::LockClient;
use lock_core::backend::FaultKind;
use lock_core::error::LossReason;
use lock_core::memory::Memory;
use lock_core::test_util::{Act, Verb};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::{Stage, Test, ms, secs, settle};

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_waits_and_lets_holders_finish() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    let waiting = tokio::spawn(stage.locks.lock("k").acquire());
    settle().await;
    let locks = stage.locks.clone();
    let shutdown = tokio::spawn(async move { locks.shutdown(secs(5)).await });
    assert!(waiting.await?.unwrap_err().is_closed());
    assert!(stage.locks.lock("other").await.unwrap_err().is_closed());
    assert!(stage.locks.lock("other").try_acquire().await.unwrap_err().is_closed());
    sleep(secs(1)).await;
    assert!(guard.is_held());
    guard.release().await?;
    let report = shutdown.await?;
    assert!(report.complete && report.abandoned == 0, "{report:?}");
    stage.rival.lock("k").try_acquire().await?.expect("a free key").release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_tells_holders_that_stay_and_takes_their_locks() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    let report = stage.locks.shutdown(secs(5)).await;
    assert!(report.complete && report.abandoned == 1, "{report:?}");
    assert_eq!(guard.lost().await.reason(), LossReason::Shutdown);
    assert!(guard.release().await.unwrap_err().is_not_held());
    stage.rival.lock("k").try_acquire().await?.expect("a free key").release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_without_a_deadline_waits_for_the_last_holder() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    let begun = Instant::now();
    let mut shutdown = pin!(stage.locks.shutdown(Duration::MAX));
    assert!(tokio::time::timeout(secs(86_400), shutdown.as_mut()).await.is_err());
    assert!(guard.is_held(), "it was taken away");
    guard.release().await?;
    let report = shutdown.await;
    assert!(report.complete && report.abandoned == 0, "{report:?}");
    assert_eq!(begun.elapsed().as_secs(), 86_400);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_in_time_over_a_store_that_hangs() -> Test {
    for verb in Verb::ALL {
        for act in [Act::Never, Act::Stuck, Act::Err(FaultKind::Transient)] {
            let stage = Stage::new();
            let guard = stage.locks.lock("k").lease(secs(60)).await?;
            stage.script.always(verb, act);
            let waiting = tokio::spawn(stage.locks.lock("other").lease(secs(60)).acquire());
            sleep(secs(25)).await;
            let begun = Instant::now();
            let report = stage.locks.shutdown(secs(3)).await;
            let took = begun.elapsed();
            assert!(took <= secs(5) + ms(5), "{verb:?} {act:?}: {took:?}");
            assert_eq!(report.abandoned, 1 + usize::from(waiting.await?.is_ok()));
            assert_eq!(guard.lost().await.reason(), LossReason::Shutdown);
            stage.script.heal();
            // A request that hung goes on, and leaves nothing.
            assert!(stage.locks.shutdown(secs(2)).await.complete, "{verb:?} {act:?}");
            for key in ["k", "other"] {
                let free = stage.rival.lock(key).try_acquire().await?;
                free.expect("a free key").release().await?;
            }
        }
    }
    Ok(())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

const LEASE: Duration = secs(2);

#[test]
fn when_the_runtime_that_kept_a_hold_is_gone_the_one_of_those_who_wait_keeps_it() -> Test {
    // It is renewed each 3 s: two renewals have 6 s to come.
    let lease = secs(9);
    let (first, second) = (runtime(), runtime());
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    // The conductor is a task of the first runtime.
    let guard = first.block_on(async {
        let guard = locks.lock("k").lease(lease).await;
        while locks.stats().renewals == 0 {
            sleep(ms(5)).await;
        }
        guard
    })?;
    let waiting = second.spawn(locks.lock("k").wait(secs(100)).acquire());
    second.block_on(async {
        while locks.stats().waiters == 0 {
            tokio::task::yield_now().await;
        }
    });
    let renewals = locks.stats().renewals;
    drop(first);
    assert!(guard.is_held());
    second.block_on(async {
        while locks.stats().renewals < renewals + 2 {
            assert!(guard.is_held(), "it is renewed");
            sleep(ms(5)).await;
        }
        let token = guard.token();
        guard.release().await?;
        let next = waiting.await??;
        assert!(next.token() > token);
        next.release().await?;
        assert!(locks.shutdown(secs(100)).await.complete);
        Test::Ok(())
    })?;
    assert_eq!(store.keys(), 0);
    Ok(())
}

#[test]
fn a_hold_of_a_runtime_that_is_gone_ends_with_its_lease_where_nobody_waits() -> Test {
    let (first, second) = (runtime(), runtime());
    let locks = LockClient::memory();
    let guard = first.block_on(async { locks.lock("k").lease(LEASE).await })?;
    let begun = std::time::Instant::now();
    drop(first);
    while guard.is_held() {
        assert!(begun.elapsed() < LEASE * 10, "nobody renews it");
        std::thread::sleep(ms(2));
    }
    second.block_on(async {
        assert_eq!(guard.lost().await.reason(), LossReason::Expired);
        assert!(guard.release().await.unwrap_err().is_not_held());
        locks.lock("k").wait(LEASE * 50).await?.release().await?;
        assert!(locks.shutdown(LEASE * 50).await.complete);
        Test::Ok(())
    })
}

/// A thread for blocking code outlives its runtime, whose timers panic from then on.
#[test]
fn a_wait_on_a_thread_of_a_runtime_that_has_ended_goes_on() -> Test {
    let ended = runtime();
    let locks = LockClient::memory();
    let guard = futures_executor::block_on(locks.lock("k").acquire())?;
    let waiting = locks.lock("k").wait(secs(100)).acquire();
    let (polled, is_polled) = mpsc::channel();
    let (end, has_ended) = mpsc::channel();
    let (told, is_told) = mpsc::channel();
    drop(ended.spawn_blocking(move || {
        let mut waiting = pin!(waiting);
        for _ in 0..2 {
            let mut context = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            polled.send(()).expect("the test goes on");
            has_ended.recv().expect("the test goes on");
        }
        told.send(futures_executor::block_on(waiting)).expect("the test goes on");
    }));
    is_polled.recv()?;
    ended.shutdown_background();
    end.send(())?;
    is_polled.recv()?;
    end.send(())?;
    assert_eq!(locks.stats().waiters, 1);
    futures_executor::block_on(guard.release())?;
    let next = is_told.recv_timeout(secs(20))??;
    futures_executor::block_on(next.release())?;
    Ok(())
}

#[test]
fn a_guard_dropped_outside_any_runtime_is_released() -> Test {
    let runtime = runtime();
    let locks = LockClient::memory();
    let guard = runtime.block_on(async { locks.lock("k").await })?;
    drop(guard);
    runtime.block_on(async {
        locks.lock("k").wait(LEASE).await?.release().await?;
        Test::Ok(())
    })
}

#[test]
fn a_store_in_this_process_needs_no_runtime() -> Test {
    let locks = LockClient::memory();
    let mut context = Context::from_waker(Waker::noop());
    let mut acquire = pin!(locks.lock("k").acquire());
    let Poll::Ready(guard) = acquire.as_mut().poll(&mut context) else {
        panic!("it waits for a runtime that is not there");
    };
    let guard = guard?;
    let busy = locks.lock("k").wait(ms(20)).retries(1).acquire();
    let begun = std::time::Instant::now();
    let error = futures_executor::block_on(busy).unwrap_err();
    assert!(error.is_timeout() && begun.elapsed() < secs(9), "{error}");
    futures_executor::block_on(guard.release())?;
    // The thread that took the place of a runtime may have had the last word.
    while locks.stats().keys > 0 {
        std::thread::yield_now();
    }
    Ok(())
}

/// Polls once, with a waker that nobody hears.
fn is_ready(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test(start_paused = true)]
async fn closed_resolves_when_a_shutdown_begins_on_any_clone_and_at_once_from_then_on() -> Test {
    let locks = LockClient::memory();
    let guard = locks.lock("k").await?;
    let (mut waits, mut unpolled) = (pin!(locks.closed()), pin!(locks.closed()));
    assert!(!is_ready(waits.as_mut()));
    let elsewhere = tokio::spawn(locks.closed());
    settle().await;
    assert!(!elsewhere.is_finished());

    let other = locks.clone();
    let mut shutdown = pin!(other.shutdown(secs(5)));
    assert!(shutdown.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(guard.is_held(), "it has only begun");
    assert!(is_ready(waits.as_mut()) && is_ready(unpolled.as_mut()));
    assert!(is_ready(pin!(locks.closed())));
    tokio::time::timeout(secs(1), elsewhere).await.expect("it was not woken")?;
    guard.release().await?;
    assert!(shutdown.await.complete);
    assert!(is_ready(waits.as_mut()) && is_ready(pin!(locks.closed())));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_closed_that_is_dropped_takes_the_news_from_nobody() {
    let locks = LockClient::memory();
    let mut stays = pin!(locks.closed());
    assert!(!is_ready(stays.as_mut()));
    {
        let mut goes = pin!(locks.closed());
        assert!(!is_ready(goes.as_mut()));
    }
    locks.shutdown(secs(0)).await;
    assert!(is_ready(stays.as_mut()));
}

#[test]
fn a_closed_that_is_made_while_the_client_shuts_down_is_told() {
    let runtime = runtime();
    for _ in 0..2_000 {
        let locks = LockClient::memory();
        let (other, handle) = (locks.clone(), runtime.handle().clone());
        let closes = std::thread::spawn(move || {
            handle.block_on(other.shutdown(Duration::ZERO));
        });
        let closed = locks.closed();
        closes.join().expect("a shutdown");
        assert!(is_ready(pin!(closed)), "nobody pokes it any more");
    }
}

#[tokio::test]
async fn a_closed_keeps_no_client_alive() {
    let locks = LockClient::memory();
    let mut closed = pin!(locks.closed());
    drop(locks);
    assert!(!is_ready(closed.as_mut()));
}

/// A waker is code of the application's.
#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nobody_from_being_told_of_a_shutdown() -> Test {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("the waker of a test");
        }
    }
    let stage = Stage::new();
    let _guard = stage.locks.lock("k").await?;
    let waiting = tokio::spawn(stage.locks.lock("k").wait(secs(60)).acquire());
    settle().await;
    let mut closed = pin!(stage.locks.closed());
    let waker = Waker::from(Arc::new(Panics));
    assert!(closed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let locks = stage.locks.clone();
    let shutdown = tokio::spawn(async move { locks.shutdown(ms(1)).await });
    assert!(waiting.await?.unwrap_err().is_closed());
    shutdown.await?;
    Ok(())
}
