//! Futures that are dropped at each place where they can wait.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a future may wait to be woken, before it is dropped all the same.
const WAKE_WITHIN: Duration = Duration::from_secs(20);

/// The place where a future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before its first poll.
    Unpolled,
    /// After its first poll and so many turns of the other tasks.
    Turns(u32),
    /// When it was polled this often, each time but the first as it was woken.
    Polled(u32),
    /// When it is woken this often, before it is polled again.
    Woken(u32),
    /// After this time.
    After(Duration),
}

/// Runs `future` up to the cut, and drops it there; its output, if it comes to that before. One that
/// is not woken for 20 s is dropped then. It needs a Tokio runtime with timers.
///
/// # Cancel safety
///
/// As that of the future.
pub async fn cut<F: Future>(cut: Cut, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let (polls, turns, waits_for_last) = match cut {
        Cut::Unpolled => return None,
        Cut::After(time) => return timeout(time, future).await.ok(),
        Cut::Turns(turns) => (1, turns, false),
        Cut::Polled(polls) => (polls, 0, false),
        Cut::Woken(wakes) => (wakes, 0, true),
    };
    let flag = Arc::new(Flag(Notify::new()));
    let waker = Waker::from(flag.clone());
    for poll in 1..=polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if poll < polls || waits_for_last {
            timeout(WAKE_WITHIN, flag.0.notified()).await.ok()?;
        }
    }
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    None
}

struct Flag(Notify);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Wakes itself at each poll but the last, and tells how often it was polled.
    async fn cut_of(at: Cut, ready_after: u32) -> (u32, bool) {
        let mut polls = 0;
        let future = poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls > ready_after { Poll::Ready(()) } else { Poll::Pending }
        });
        let ended = cut(at, future).await.is_some();
        (polls, ended)
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_is_polled_as_often_as_the_cut_says() {
        let cuts = [
            (Cut::Unpolled, (0, false)),
            (Cut::Turns(3), (1, false)),
            (Cut::Polled(0), (0, false)),
            (Cut::Polled(1), (1, false)),
            (Cut::Polled(3), (3, false)),
            (Cut::Woken(0), (0, false)),
            (Cut::Woken(2), (2, false)),
            (Cut::Polled(9), (5, true)),
        ];
        for (at, wanted) in cuts {
            assert_eq!(cut_of(at, 4).await, wanted, "{at:?}");
        }
        assert!(
            cut(Cut::After(Duration::from_millis(5)), std::future::pending::<()>()).await.is_none()
        );
        // It is never woken.
        assert!(cut(Cut::Woken(1), std::future::pending::<()>()).await.is_none());
    }
}
