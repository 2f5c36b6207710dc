//! The response body.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::passage::{Outlet, Polled, poll_body};
use crate::BoxError;
use crate::answer::AnswerBody;
use crate::pieces::size_hint;

pin_project! {
    /// The response body behind an [`IdempotencyLayer`](crate::IdempotencyLayer): the handler's
    /// own, one that is or was read for its record, a replayed one, or the layer's answer.
    pub struct IdempotencyBody<R> {
        #[pin]
        state: State<R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<R> {
        // Never looked at.
        Untouched { #[pin] body: R },
        // In one piece, from this handler or from its record.
        Whole { data: Option<Bytes>, trailers: Option<HeaderMap> },
        // ## Begun => Begun, without its data
        // The part that was read before the bound, and the rest, which is not held up.
        Begun { data: Option<Bytes>, rest: Pin<Box<R>> },
        // Read by a task, which passes it on.
        Flowing { outlet: Outlet<R> },
        // ## Broken => Broken, without its data => Broken, without its error
        Broken { data: Option<Bytes>, error: Option<BoxError> },
        Answer { #[pin] body: AnswerBody },
    }
}

impl<R> IdempotencyBody<R> {
    pub(super) fn untouched(body: R) -> Self {
        Self { state: State::Untouched { body } }
    }

    pub(super) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { state: State::Whole { data: some(data), trailers } }
    }

    pub(super) fn begun(data: Bytes, rest: Pin<Box<R>>) -> Self {
        Self { state: State::Begun { data: some(data), rest } }
    }

    pub(super) fn flowing(outlet: Outlet<R>) -> Self {
        Self { state: State::Flowing { outlet } }
    }

    pub(super) fn broken(data: Bytes, error: BoxError) -> Self {
        Self { state: State::Broken { data: some(data), error: Some(error) } }
    }

    pub(super) fn answer(body: AnswerBody) -> Self {
        Self { state: State::Answer { body } }
    }
}

/// An empty body, for layers that answer by themselves, as a timeout does.
impl<R> Default for IdempotencyBody<R> {
    fn default() -> Self {
        Self { state: State::Whole { data: None, trailers: None } }
    }
}

/// An empty frame would say nothing.
fn some(data: Bytes) -> Option<Bytes> {
    Some(data).filter(|data| !data.is_empty())
}

impl<R> Body for IdempotencyBody<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match self.project().state.project() {
            StateProj::Untouched { body } => poll_body(body, cx),
            StateProj::Whole { data, trailers } => {
                let frame = data.take().map(Frame::data);
                Poll::Ready(frame.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            StateProj::Begun { data, rest } => match data.take() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => poll_body(rest.as_mut(), cx),
            },
            StateProj::Flowing { outlet } => outlet.poll_frame(cx),
            StateProj::Broken { data, error } => {
                let frame = data.take().map(|data| Ok(Frame::data(data)));
                Poll::Ready(frame.or_else(|| error.take().map(Err)))
            }
            StateProj::Answer { body } => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Untouched { body } => body.is_end_stream(),
            State::Whole { data, trailers } => data.is_none() && trailers.is_none(),
            State::Begun { data, rest } => data.is_none() && rest.is_end_stream(),
            State::Flowing { outlet } => outlet.is_end_stream(),
            State::Broken { data, error } => data.is_none() && error.is_none(),
            State::Answer { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Untouched { body } => body.size_hint(),
            State::Whole { data, trailers } => size_hint(data.as_ref(), trailers.as_ref()),
            State::Begun { data, rest } => {
                let begun = data.as_ref().map_or(0, Bytes::len) as u64;
                let rest = rest.size_hint();
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(begun));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(begun)) {
                    hint.set_upper(upper);
                }
                hint
            }
            State::Flowing { outlet } => outlet.size_hint(),
            // More was announced than comes; that it ends is told by the error.
            State::Broken { .. } => SizeHint::new(),
            State::Answer { body } => body.size_hint(),
        }
    }
}

impl<R> fmt::Debug for IdempotencyBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Untouched { .. } => "untouched",
            State::Whole { .. } => "whole",
            State::Begun { .. } => "begun",
            State::Flowing { .. } => "flowing",
            State::Broken { .. } => "broken",
            State::Answer { .. } => "answer",
        };
        f.debug_tuple("IdempotencyBody").field(&state).finish()
    }
}
