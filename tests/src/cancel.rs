//! Dropping futures at each place where they can wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Polls a future whenever it is woken, so many times, and drops it; its output, if it came to that.
///
/// # Cancel safety
///
/// As that of the future.
pub async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}
