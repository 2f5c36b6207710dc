//! Questions to the store outside of any key's driver, whoever polls them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use crate::backend::Fault;
use crate::engine::key::Shared;

pin_project! {
    /// A request that needs timers and connections. On another executor than Tokio's it has those
    /// of the conductor.
    #[must_use = "futures do nothing unless awaited"]
    pub(crate) struct Served<F> {
        shared: Arc<Shared>,
        #[pin]
        request: F,
    }
}

impl<F> Served<F> {
    pub(crate) fn new(shared: &Arc<Shared>, request: F) -> Self {
        Self { shared: shared.clone(), request }
    }
}

impl<T, F: Future<Output = Result<T, Fault>>> Future for Served<F> {
    type Output = Result<T, Fault>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let lent = this.shared.lent_runtime()?;
        let _entered = lent.as_ref().map(Handle::enter);
        this.request.poll(cx)
    }
}
