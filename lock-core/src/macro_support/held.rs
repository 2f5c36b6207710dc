//! What a call holds while its body runs: one guard, several, or none where `when` said so.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{
    LockGuard, LockHandle, LockScope, Lost, LostError, MultiLockGuard, MultiLockHandle, MultiLost,
};

/// Guards, and what the body gets to see of them.
pub trait Held {
    /// What `guard = name` binds.
    type Handle;
    /// Resolves when a lock is lost.
    type Lost: Future<Output = LostError> + Unpin;
    /// A view that can't release.
    fn handle(&self) -> Self::Handle;
    /// Resolves when one of the locks is lost.
    fn lost(&self) -> Self::Lost;
    /// The scope of what is called under the guards, inside `outer`.
    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope>;
}

impl Held for LockGuard {
    type Handle = LockHandle;
    type Lost = Lost;

    fn handle(&self) -> LockHandle {
        self.handle()
    }

    fn lost(&self) -> Lost {
        self.lost()
    }

    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        Some(self.scope_in(outer))
    }
}

/// `keys = [..]`.
impl Held for MultiLockGuard {
    type Handle = MultiLockHandle;
    type Lost = MultiLost;

    fn handle(&self) -> MultiLockHandle {
        self.handle()
    }

    fn lost(&self) -> MultiLost {
        self.lost()
    }

    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        self.scope_in(outer)
    }
}

/// `when = expr`: no guard where it was false.
impl<H: Held> Held for Option<H> {
    type Handle = Option<H::Handle>;
    type Lost = MaybeLost<H::Lost>;

    fn handle(&self) -> Self::Handle {
        self.as_ref().map(H::handle)
    }

    fn lost(&self) -> Self::Lost {
        MaybeLost { lost: self.as_ref().map(H::lost) }
    }

    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        match self {
            Some(held) => held.scope_in(outer),
            None => outer,
        }
    }
}

/// Resolves when the lock is lost, if there is one.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct MaybeLost<L> {
    lost: Option<L>,
}

impl<L: Future<Output = LostError> + Unpin> Future for MaybeLost<L> {
    type Output = LostError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostError> {
        match &mut self.lost {
            Some(lost) => Pin::new(lost).poll(cx),
            None => Poll::Pending,
        }
    }
}
