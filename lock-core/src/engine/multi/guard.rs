//! Several held locks in hand.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Deref;
use std::task::Poll;

use futures_util::future::maybe_done;

use super::super::hold::{LockGuard, LockScope, Scoped};
use super::MultiLockHandle;
use crate::error::ReleaseError;

/// Several held locks, made by [`LockClient::lock_all`](crate::LockClient::lock_all). Dropping it
/// gives them up in the background, the last key first; [`release`](Self::release) waits for the
/// answers.
///
/// They are one: when one of them is lost, none counts any more.
/// [`is_held`](MultiLockHandle::is_held) is false then, and [`lost`](MultiLockHandle::lost) says
/// which one it was. The others stay locked until this guard is gone, so that nobody else begins
/// while its work winds up. All that its [`MultiLockHandle`] has is its own.
#[must_use = "locks that are not kept are given up at once"]
pub struct MultiLockGuard {
    /// In the order of the keys.
    guards: Vec<LockGuard>,
    handle: MultiLockHandle,
}

impl MultiLockGuard {
    /// Nothing yet.
    pub(super) fn with_capacity(keys: usize) -> Self {
        let handle = MultiLockHandle::with_capacity(keys);
        Self { guards: Vec::with_capacity(keys), handle }
    }

    /// Adds the hold of the next key.
    pub(super) fn push(&mut self, guard: LockGuard) {
        self.handle.push(guard.handle());
        self.guards.push(guard);
    }

    /// A view of these holds that can be cloned and sent along, and cannot release them. Through
    /// [`iter`](MultiLockHandle::iter) it has that of each.
    #[must_use]
    pub fn handle(&self) -> MultiLockHandle {
        self.handle.clone()
    }

    /// Runs a future under all the holds. An acquire of one of the keys inside it re-enters that
    /// hold, as one of several does. See [`LockGuard::scope`].
    ///
    /// # Cancel safety
    ///
    /// As that of the future.
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        self.scope_in(LockScope::current()).expect("a guard has one key at least").run(future)
    }

    /// The scope of what is called under the guard, inside `outer`.
    pub(crate) fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        self.guards.iter().fold(outer, |outer, guard| Some(guard.scope_in(outer)))
    }

    /// Gives all locks up, the last key first, and waits for the answers, for all of them at once.
    /// A hold that was lost, or whose store does not answer, does not keep the others.
    ///
    /// # Errors
    ///
    /// That of the first key, in their order, that has one: see [`LockGuard::release`]. It names
    /// the key. No answer takes longer than 2 s, whatever the number of keys.
    ///
    /// # Cancel safety
    ///
    /// All releases are under way with the first poll and go on when this future is dropped; only
    /// the answers are lost. Dropped before its first poll, it drops the guard, which releases too.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let guards = mem::take(&mut self.guards).into_iter().rev();
        let mut each: Vec<_> = guards.map(|guard| Box::pin(maybe_done(guard.release()))).collect();
        // `join_all` may leave some of many unpolled at first, so not begun.
        poll_fn(|cx| {
            let mut all = Poll::Ready(());
            for one in &mut each {
                if one.as_mut().poll(cx).is_pending() {
                    all = Poll::Pending;
                }
            }
            all
        })
        .await;
        let outcomes = each.iter_mut().rev().filter_map(|one| one.as_mut().take_output());
        outcomes.collect()
    }
}

impl Deref for MultiLockGuard {
    type Target = MultiLockHandle;

    fn deref(&self) -> &MultiLockHandle {
        &self.handle
    }
}

impl Drop for MultiLockGuard {
    fn drop(&mut self) {
        // A vector drops its first element first.
        while self.guards.pop().is_some() {}
    }
}

impl fmt::Debug for MultiLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MultiLockGuard ")?;
        f.debug_map().entries(self.keys().zip(self.tokens())).finish()
    }
}
