//! The one place that reads the monotonic clock and draws random numbers.
//!
//! The clock is Tokio's, so that tests run on a paused one, and the time for which the machine was
//! suspended, see [`suspended`]. Timers know nothing of that time: one that was
//! set before a suspension is due so much later. They also fire by the runtime in which they were
//! made, which may be blocked: [`alarm`] is for what several may poll.

#![allow(clippy::disallowed_methods)]

use std::cell::Cell;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::coop;
use tokio::time::Sleep;

use super::Plus as _;
use super::suspended;

/// The time by this process's own clock.
pub(crate) fn now() -> Instant {
    let running = tokio::time::Instant::now().into_std();
    // Most machines never are, and all that is done reads the clock.
    suspended::so_far(running).map_or(running, |suspended| running.plus(suspended))
}

/// An instant of this clock for Tokio's timers.
pub(crate) fn timer(at: Instant) -> tokio::time::Instant {
    suspended::known().and_then(|suspended| at.checked_sub(suspended)).unwrap_or(at).into()
}

/// A timer that is due at an instant of this clock.
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    tokio::time::sleep_until(timer(at))
}

/// The runtime that this is polled in, if it has timers. One without them serves nothing that waits,
/// and counts as none.
pub(crate) fn runtime() -> Option<Handle> {
    Handle::try_current().ok().filter(has_timers)
}

thread_local! {
    /// The runtime that had timers when this thread looked last.
    static WITH_TIMERS: Cell<Option<Id>> = const { Cell::new(None) };
    /// The last one that was found to have none: it was built so, or has ended.
    static WITHOUT_TIMERS: Cell<Option<Id>> = const { Cell::new(None) };
}

/// There is no other way to learn it than the panic of a timer, which is printed: once for each
/// runtime in a thread.
fn has_timers(here: &Handle) -> bool {
    let here = Some(here.id());
    if here == WITH_TIMERS.get() {
        return true;
    }
    if here == WITHOUT_TIMERS.get() {
        return false;
    }
    let looked = catch_unwind(|| {
        let timer = pin!(coop::unconstrained(tokio::time::sleep(Duration::ZERO)));
        let _ = timer.poll(&mut Context::from_waker(Waker::noop()));
    });
    let seen = if looked.is_ok() { &WITH_TIMERS } else { &WITHOUT_TIMERS };
    seen.set(here);
    looked.is_ok()
}

/// A timer of the runtime here panicked; whether it was not known before that this one has none. A
/// thread for blocking code outlives its runtime.
fn have_ended() -> bool {
    let here = Handle::try_current().ok().map(|here| here.id());
    if WITH_TIMERS.get() == here {
        WITH_TIMERS.set(None);
    }
    here.is_some() && WITHOUT_TIMERS.replace(here) != here
}

/// The same as [`sleep_until`], for a future that is polled in several runtimes, one of which may
/// be blocked.
pub(crate) fn alarm(at: Instant) -> Alarm {
    Alarm { at, sleep: None, runtime: None }
}

/// An [`alarm`] that is due when so much time is over.
pub(crate) fn alarm_in(time: Duration) -> Alarm {
    alarm(now().plus(time))
}

pin_project! {
    /// Compares the clock at each poll, and has a timer of the runtime that polled it last. Where
    /// that turns out to have ended, its task is woken to find another.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        at: Instant,
        #[pin]
        sleep: Option<Sleep>,
        // The runtime in which `sleep` was made.
        runtime: Option<Id>,
    }
}

impl Alarm {
    /// Due at another instant.
    pub(crate) fn reset(self: Pin<&mut Self>, at: Instant) {
        let mut this = self.project();
        if *this.at != at {
            *this.at = at;
            this.sleep.set(None);
        }
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            if now() >= *this.at {
                return Poll::Ready(());
            }
            let here = Handle::try_current().ok().map(|here| here.id());
            if this.sleep.is_none() || (here.is_some() && here != *this.runtime) {
                this.sleep.set(Some(sleep_until(*this.at)));
                *this.runtime = here;
            }
            let Some(sleep) = this.sleep.as_mut().as_pin_mut() else { continue };
            let polled = catch_unwind(AssertUnwindSafe(|| sleep.poll(cx)));
            if let Ok(Poll::Pending) = polled {
                return Poll::Pending;
            }
            this.sleep.set(None);
            if let Err(panic) = polled {
                if !have_ended() {
                    resume_unwind(panic);
                }
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

/// Two counts, mixed, that begin at the operating system's randomness, so that no two processes draw
/// the same, however alike they started.
pub(crate) fn random_u128() -> u128 {
    static FIRST: LazyLock<[u64; 2]> = LazyLock::new(|| {
        let keys = RandomState::new();
        [0, 1].map(|n| keys.hash_one(n))
    });
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mixed = |first: u64| fastrand::Rng::with_seed(first.wrapping_add(count)).u64(..);
    let [high, low] = FIRST.map(|first| u128::from(mixed(first)));
    high << 64 | low
}

/// A number that nobody else draws.
pub(crate) fn random_u64() -> u64 {
    random_u128() as u64
}

/// Random bits for jitter.
pub(crate) fn random_bits() -> u32 {
    fastrand::u32(..)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn an_alarm_fires_for_whoever_polls_it_last() {
        let paused =
            || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (blocked, other) = (paused(), paused());
        let at = blocked.block_on(async { now() }) + Duration::from_millis(20);
        let mut alarm = pin!(alarm(at));
        let poll_once = std::future::poll_fn(|cx| {
            assert!(alarm.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        });
        blocked.block_on(poll_once);
        let within = Duration::from_secs(10);
        other.block_on(async {
            tokio::time::timeout(within, alarm.as_mut()).await.unwrap();
            assert!(now() >= at);
        });
    }

    #[test]
    fn a_runtime_without_timers_is_none_also_between_others() {
        let (timeless, other) = (Builder::new_current_thread().build().unwrap(), runtime());
        for _ in 0..2 {
            assert!(super::runtime().is_none());
            assert!(timeless.block_on(async { super::runtime() }).is_none());
            let here = other.block_on(async { super::runtime() });
            assert_eq!(here.map(|here| here.id()), Some(other.handle().id()));
        }
    }

    /// A thread for blocking code is in its runtime for as long as it lives.
    #[test]
    fn a_runtime_that_has_ended_has_no_timers_for_its_threads() {
        let (ended, other) = (runtime(), runtime());
        let (end, has_ended) = mpsc::channel();
        let (polled, is_polled) = mpsc::channel();
        drop(ended.spawn_blocking(move || {
            let mut alarm = pin!(alarm_in(Duration::from_secs(60)));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(super::runtime().is_some());
            assert!(alarm.as_mut().poll(&mut cx).is_pending());
            polled.send(()).unwrap();
            has_ended.recv().unwrap();
            assert!(alarm.as_mut().poll(&mut cx).is_pending());
            for _ in 0..2 {
                assert!(super::runtime().is_none());
                let _entered = other.enter();
                assert!(super::runtime().is_some());
                assert!(alarm.as_mut().poll(&mut cx).is_pending());
            }
            polled.send(()).unwrap();
        }));
        is_polled.recv().unwrap();
        ended.shutdown_background();
        end.send(()).unwrap();
        is_polled.recv().expect("no assertion failed");
    }

    #[test]
    fn an_alarm_whose_time_has_passed_needs_no_timer() {
        let mut alarm = pin!(alarm(now()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(alarm.as_mut().poll(&mut cx).is_ready());
    }
}
