//! The response body, which may hold the lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use lock_core::scope::CutWatch;
use pin_project_lite::pin_project;

use super::hold::Hold;
use crate::BoxError;
use crate::answer::AnswerBody;

pin_project! {
    /// The response body behind a [`LockLayer`](crate::LockLayer): the handler's own, or the
    /// layer's answer.
    ///
    /// Under [`HoldUntil::ResponseBody`](crate::HoldUntil::ResponseBody) it holds the lock until
    /// its last frame was taken or it is dropped. When the lock is lost before that, it ends with
    /// a [`LostError`](lock_core::error::LostError), so that the client sees a broken response and not
    /// one that looks whole.
    pub struct LockBody<R> {
        #[pin]
        state: State<R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<R> {
        // ## Held => (Free | Ended)
        // The body is declared before the guard, so it is dropped first.
        Held { #[pin] body: R, hold: Option<Hold> },
        Answer { #[pin] body: AnswerBody },
        Ended,
    }
}

impl<R> LockBody<R> {
    pub(super) fn answer(body: AnswerBody) -> Self {
        Self { state: State::Answer { body } }
    }
}

/// An empty body, which holds no lock: for layers that answer by themselves, as a timeout does.
impl<R> Default for LockBody<R> {
    fn default() -> Self {
        Self { state: State::Ended }
    }
}

impl<R: Body> LockBody<R> {
    pub(super) fn free(body: R) -> Self {
        Self { state: State::Held { body, hold: None } }
    }

    pub(super) fn held(body: R, hold: Hold) -> Self {
        // A server does not poll a body that says that it has ended.
        let hold = (!body.is_end_stream()).then_some(hold);
        Self { state: State::Held { body, hold } }
    }
}

impl<R> Body for LockBody<R>
where
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut state = self.project().state;
        match state.as_mut().project() {
            StateProj::Held { mut body, hold } => {
                let asks = poll_fn(|cx| body.as_mut().poll_frame(cx));
                // What makes the body is called under the lock, as the handler was.
                let asked = match hold {
                    Some(hold) => hold.poll(cx, |guard, cx| pin!(guard.scope(asks)).poll(cx)),
                    None => pin!(asks).poll(cx).map(Ok),
                };
                let frame = match asked {
                    Poll::Ready(Err(error)) => {
                        tracing::warn!(%error, "a response was broken off");
                        state.set(State::Ended);
                        CutWatch::tell();
                        return Poll::Ready(Some(Err(error.into())));
                    }
                    Poll::Ready(Ok(frame)) => Poll::Ready(frame),
                    Poll::Pending => Poll::Pending,
                };
                let ended = match &frame {
                    Poll::Ready(Some(Ok(_))) => body.is_end_stream(),
                    Poll::Ready(Some(Err(_)) | None) => true,
                    Poll::Pending => false,
                };
                if ended {
                    *hold = None;
                }
                frame.map_err(Into::into)
            }
            StateProj::Answer { body } => body.poll_frame(cx),
            StateProj::Ended => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Held { body, .. } => body.is_end_stream(),
            State::Answer { body } => body.is_end_stream(),
            State::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Held { body, .. } => body.size_hint(),
            State::Answer { body } => body.size_hint(),
            State::Ended => SizeHint::with_exact(0),
        }
    }
}

impl<R> fmt::Debug for LockBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Held { hold: Some(_), .. } => "held",
            State::Held { hold: None, .. } => "free",
            State::Answer { .. } => "answer",
            State::Ended => "ended",
        };
        f.debug_tuple("LockBody").field(&state).finish()
    }
}
