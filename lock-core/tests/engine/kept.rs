//! An executor may have a task by its wakers alone: the last waker takes the task with it, and what
//! that task has of a key goes back into the key. Under the mutex of the key it would wait for itself.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use lock_core::LockGuard;

use super::{Stage, Test, secs, settle};

type Waiter = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that waits for the key, and that only its waker has.
struct Task {
    _waits: Mutex<Waiter>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

impl Stage {
    /// The last waker of a task that waits for the key.
    fn waker(&self) -> Waker {
        let waits = self.locks.lock("k").acquire();
        let mut waits: Waiter = Box::pin(async move { drop(waits.await) });
        assert!(poll(waits.as_mut(), Waker::noop()).is_pending());
        Arc::new(Task { _waits: Mutex::new(waits) }).into()
    }

    fn waiters(&self) -> usize {
        self.locks.busy_keys().iter().map(|key| key.waiters).sum()
    }
}

async fn held() -> Result<(Stage, LockGuard), Box<dyn std::error::Error + Send + Sync>> {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").lease(secs(60)).await?;
    settle().await;
    Ok((stage, guard))
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_another_task_goes_on_with_ends_the_waker_of_the_first() -> Test {
    let (stage, guard) = held().await?;
    let mut waits = pin!(stage.locks.lock("k").acquire());
    assert!(poll(waits.as_mut(), &stage.waker()).is_pending());
    assert_eq!(stage.waiters(), 2);
    assert!(poll(waits.as_mut(), Waker::noop()).is_pending());
    assert_eq!(stage.waiters(), 1);
    drop(guard);
    drop(waits.await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_ends_its_waker() -> Test {
    let (stage, guard) = held().await?;
    let mut waits = Box::pin(stage.locks.lock("k").acquire());
    assert!(poll(waits.as_mut(), &stage.waker()).is_pending());
    assert_eq!(stage.waiters(), 2);
    drop(waits);
    assert_eq!(stage.waiters(), 0);
    drop(guard);
    Ok(())
}

/// By another task that goes on with it, by its end, and by the end of the hold.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_hold_ends_its_waker() -> Test {
    let (stage, guard) = held().await?;
    let mut lost = Box::pin(guard.lost());
    for waiters in [1, 1] {
        assert!(poll(lost.as_mut(), &stage.waker()).is_pending());
        assert_eq!(stage.waiters(), waiters);
    }
    drop(lost);
    assert_eq!(stage.waiters(), 0);
    let mut lost = pin!(guard.lost());
    assert!(poll(lost.as_mut(), &stage.waker()).is_pending());
    assert_eq!(stage.waiters(), 1);
    drop(guard);
    assert_eq!(stage.waiters(), 0);
    assert!(poll(lost, Waker::noop()).is_pending(), "a release is no loss");
    Ok(())
}
