//! The reentrancy scope of a call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Acquire;
use crate::{LockClient, Scoped};

/// Opens the scope in which the call acquires and its body runs, so that a nested call for the same
/// key re-enters. A call without a client, or one that takes no lock, opens none.
#[derive(Debug)]
pub struct Scope {
    client: Option<LockClient>,
}

impl Scope {
    /// The scope of `call`.
    pub fn of<C: Acquire>(call: &C) -> Self {
        Self { client: call.client().cloned() }
    }

    /// Runs `future` inside.
    pub fn run<F: Future>(self, future: F) -> InScope<F> {
        match self.client {
            Some(client) => InScope::Open { inner: client.scope(future) },
            None => InScope::Bare { inner: future },
        }
    }
}

pin_project! {
    /// A future in the scope of its call.
    #[project = InScopeProjection]
    #[must_use = "futures do nothing unless polled"]
    #[allow(missing_debug_implementations, reason = "the future inside has none")]
    pub enum InScope<F: Future> {
        Open { #[pin] inner: Scoped<F> },
        Bare { #[pin] inner: F },
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            InScopeProjection::Open { inner } => inner.poll(cx),
            InScopeProjection::Bare { inner } => inner.poll(cx),
        }
    }
}
