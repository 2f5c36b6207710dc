//! Being told that the client shuts down.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::futures::OwnedNotified;

pin_project! {
    /// Resolves when [`LockClient::shutdown`](crate::LockClient::shutdown) is called on any clone
    /// of the client, at once if it was before.
    ///
    /// It borrows nothing and keeps no client alive: when all clones are dropped and none was
    /// shut down, it stays pending.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it; a later one resolves at once.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Closed {
        // None where it was closed before.
        #[pin]
        told: Option<OwnedNotified>,
    }
}

impl Closed {
    pub(in crate::engine) fn new(told: Option<OwnedNotified>) -> Self {
        Self { told }
    }
}

impl Future for Closed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.project().told.as_pin_mut() {
            Some(told) => told.poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").finish_non_exhaustive()
    }
}
