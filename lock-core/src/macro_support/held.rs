//! The guards of a call while its body runs: one, several, or none where `when` said so.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::LostError;
use crate::lockable;
use crate::scope::LockScope;

/// Guards, and what the body gets to see of them.
pub trait Held {
    /// The view that `guard = name` binds.
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

impl<G: lockable::Held> Held for G {
    type Handle = G::Handle;
    type Lost = G::Lost;

    fn handle(&self) -> G::Handle {
        lockable::Held::handle(self)
    }

    fn lost(&self) -> G::Lost {
        lockable::Held::lost(self)
    }

    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        lockable::Held::scope_in(self, outer)
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
