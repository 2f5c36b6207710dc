//! Dropping futures at each place where they can wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::{LockClient, LockOptions};

use crate::wait::within;

/// Longer than a place in the line that its owner has left may last at any store.
const WAIT: Duration = Duration::from_secs(9);

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

/// Takes free and busy locks and gives them back with `locks`, drops each of these futures after
/// each number of polls, and has `other` take the lock behind it. What is left behind would be
/// there for a `lease`: choose it long.
///
/// # Panics
///
/// Where the other one waits longer than 9 s, or is given a token that is not greater.
///
/// # Cancel safety
///
/// What it holds when it is dropped is given back.
pub async fn at_each_poll(locks: &LockClient, other: &LockClient, lease: Duration) {
    let options = LockOptions::new().with_wait(WAIT).with_lease(lease);
    let take = |client: &LockClient, key: &str| client.lock(key).options(options).acquire();
    for polls in 0.. {
        let free = dropped_after(polls, take(locks, "free")).await;
        let held = within("a free key", take(other, "busy")).await.expect("a grant");
        let before = held.token();
        let (busy, released) =
            tokio::join!(dropped_after(polls, take(locks, "busy")), held.release());
        released.expect("a release");
        let held = within("a free key", take(locks, "released")).await.expect("a grant");
        let released = dropped_after(polls, held.release()).await;
        let is_over = free.is_some() && busy.is_some() && released.is_some();
        drop((free, busy));
        for key in ["free", "busy", "released"] {
            let next = within(key, take(other, key)).await;
            let next = next.unwrap_or_else(|error| panic!("{key}, after {polls} polls: {error}"));
            assert!(key != "busy" || next.token() > before, "after {polls} polls");
            next.release().await.expect("a release");
        }
        if is_over {
            assert!(polls >= 2, "nothing waited for anything");
            return;
        }
    }
}
