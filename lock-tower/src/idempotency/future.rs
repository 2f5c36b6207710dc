//! The response future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::body::IdempotencyBody;

type Answer<R, E> = Result<Response<IdempotencyBody<R>>, E>;

pin_project! {
    /// The response future of an [`IdempotencyService`](super::IdempotencyService), around the
    /// future `F` of the inner one.
    ///
    /// # Cancel safety
    ///
    /// Dropping it before the handler has begun leaves the line, and nothing runs. After that the
    /// handler runs on, or is aborted, as [`OnDisconnect`](super::OnDisconnect) says.
    pub struct IdempotencyFuture<F, R, E> {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E> {
        // ## Passed => the end
        Passed { #[pin] inner: F },
        // ## Refused => the end
        Refused { response: Option<Response<IdempotencyBody<R>>> },
        // ## Exchanged => the end
        // Boxed, as the engine's futures have no names. One box is little beside a round trip.
        Exchanged { exchange: Pin<Box<dyn Future<Output = Answer<R, E>> + Send>> },
    }
}

impl<F, R, E> IdempotencyFuture<F, R, E> {
    pub(super) fn passed(inner: F) -> Self {
        Self { state: State::Passed { inner } }
    }

    pub(super) fn refused(response: Response<IdempotencyBody<R>>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    pub(super) fn exchanged(exchange: impl Future<Output = Answer<R, E>> + Send + 'static) -> Self {
        Self { state: State::Exchanged { exchange: Box::pin(exchange) } }
    }
}

impl<F, R, E> Future for IdempotencyFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Answer<R, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Passed { inner } => {
                let result = ready!(inner.poll(cx));
                Poll::Ready(result.map(|response| response.map(IdempotencyBody::untouched)))
            }
            StateProj::Refused { response } => {
                Poll::Ready(Ok(response.take().expect("polled again after it was ready")))
            }
            StateProj::Exchanged { exchange } => exchange.as_mut().poll(cx),
        }
    }
}

impl<F, R, E> fmt::Debug for IdempotencyFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyFuture").finish_non_exhaustive()
    }
}
