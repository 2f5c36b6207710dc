//! The body in the scope of what its call holds.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Held;
use crate::futures::Scoped;
use crate::scope::LockScope;

pin_project! {
    /// A body called under its guards, so that a nested call for the same key re-enters. A body
    /// that holds nothing stays where it is called.
    #[project = InScopeProjection]
    #[must_use = "futures do nothing unless polled"]
    pub(super) enum InScope<F> {
        Under { #[pin] inner: Scoped<F> },
        Bare { #[pin] inner: F },
    }
}

impl<F: Future> InScope<F> {
    pub(super) fn of<H: Held>(held: &H, body: F) -> Self {
        match held.scope_in(LockScope::current()) {
            Some(scope) => Self::Under { inner: scope.run(body) },
            None => Self::Bare { inner: body },
        }
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            InScopeProjection::Under { inner } => inner.poll(cx),
            InScopeProjection::Bare { inner } => inner.poll(cx),
        }
    }
}
