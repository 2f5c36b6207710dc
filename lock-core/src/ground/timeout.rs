//! A bound on time that holds whoever polls.
//!
//! The task that asks polls a request. The conductor polls it where that task does not come to run,
//! or where its runtime has ended. Timers of an ended runtime would panic, so the time of a request
//! is an [`alarm`](clock::alarm).
//!
//! Most requests are answered long before their time is over. Where the conductor is known to poll
//! again soon, the timer is made at that poll. A timer of the caller's that is due in two seconds
//! would be the first of its runtime, and would cost two system calls and a detour of its driver.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use super::clock::Alarm;
use super::{Plus as _, background, clock};

pin_project! {
    /// A future with a bound on its time, see [`within`] and [`by`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Within<F> {
        #[pin]
        future: F,
        is_polled: bool,
        bound: Bound,
        #[pin]
        alarm: Option<Alarm>,
    }
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    /// A time that counts from the first poll that needs a timer, so that most need not read the
    /// clock.
    For(Duration),
    At(Instant),
}

/// The time was over first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer in time")]
pub struct Late;

/// Gives `future` this much time from its first poll on, or from the next where the conductor is
/// known to poll it soon (50 ms at most).
///
/// It holds in whatever runtime it is polled, and when the one of its first poll is gone.
///
/// # Panics
///
/// Polled where there is no runtime with timers. The verbs of a store never are; what a store does
/// before may take [`Home::timeout_at`](crate::backend::io::Home::timeout_at).
///
/// # Cancel safety
///
/// As `future`.
pub fn within<F: Future>(time: Duration, future: F) -> Within<F> {
    Within { future, is_polled: false, bound: Bound::For(time), alarm: None }
}

/// Gives `future` until then, see [`within`].
///
/// # Cancel safety
///
/// As `future`.
pub fn by<F: Future>(until: Instant, future: F) -> Within<F> {
    Within { future, is_polled: false, bound: Bound::At(until), alarm: None }
}

impl<F: Future> Future for Within<F> {
    type Output = Result<F::Output, Late>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if !mem::replace(this.is_polled, true) && background::comes_soon() {
            return Poll::Pending;
        }
        if this.alarm.is_none() {
            let until = match *this.bound {
                Bound::For(time) => clock::now().plus(time),
                Bound::At(until) => until,
            };
            this.alarm.set(Some(clock::alarm(until)));
        }
        this.alarm.as_pin_mut().map_or(Poll::Pending, |alarm| alarm.poll(cx).map(|()| Err(Late)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    }

    #[test]
    fn a_bound_that_began_in_a_runtime_that_is_gone_holds_in_the_next() {
        let paused = || {
            let builder = &mut tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().expect("a runtime")
        };
        let (first, second) = (paused(), paused());
        let mut bounded = pin!(within(Duration::from_millis(20), pending::<()>()));
        let begun = first.block_on(async {
            assert!(bounded.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            clock::now()
        });
        drop(first);
        second.block_on(async {
            assert_eq!(bounded.await, Err(Late));
            assert!(clock::now() >= begun + Duration::from_millis(20));
        });
    }

    #[test]
    fn a_caller_leaves_the_timer_to_the_conductor() {
        let (callers, conductors) = (runtime(), runtime());
        let mut bounded = pin!(within(Duration::from_millis(1), pending::<()>()));
        callers.block_on(async {
            let _caller = background::enter_caller();
            assert!(bounded.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        });
        assert!(bounded.alarm.is_none());
        assert_eq!(conductors.block_on(bounded), Err(Late));
    }

    #[test]
    fn what_is_there_in_time_is_told_without_a_timer() {
        let done = within(Duration::ZERO, std::future::ready(7));
        assert_eq!(runtime().block_on(done), Ok(7));
    }
}
