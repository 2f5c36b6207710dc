//! A request body that was read for its key or fingerprint, and is given again.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::LengthLimitError;
use pin_project_lite::pin_project;

use crate::pieces::{Pieces, size_hint};

pin_project! {
    /// The request body behind [`json_pointer`](super::json_pointer) and the idempotency layer. It
    /// gives again what was read, as one data frame and the trailers. Where nothing had to be read
    /// it is the untouched body.
    pub struct BufferedBody<B> {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<B> {
        Untouched { #[pin] body: B },
        Buffered { data: Option<Bytes>, trailers: Option<HeaderMap> },
    }
}

impl<B> BufferedBody<B> {
    pub(crate) fn untouched(body: B) -> Self {
        Self { state: State::Untouched { body } }
    }

    /// Gives again what was read, and lends it for parsing.
    pub(crate) fn buffered(mut read: Pieces) -> (Self, Bytes) {
        let trailers = read.trailers.take();
        let data = read.into_bytes();
        let state =
            State::Buffered { data: Some(data.clone()).filter(|data| !data.is_empty()), trailers };
        (Self { state }, data)
    }
}

/// An empty body, for layers that send a request of their own, as one that follows redirects does.
impl<B> Default for BufferedBody<B> {
    fn default() -> Self {
        Self { state: State::Buffered { data: None, trailers: None } }
    }
}

impl<B: Body> Body for BufferedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().state.project() {
            StateProj::Untouched { body } => body
                .poll_frame(cx)
                .map_ok(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))),
            StateProj::Buffered { data, trailers } => {
                let frame = data.take().map(Frame::data);
                Poll::Ready(frame.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Untouched { body } => body.is_end_stream(),
            State::Buffered { data, trailers } => data.is_none() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Untouched { body } => body.size_hint(),
            State::Buffered { data, trailers } => size_hint(data.as_ref(), trailers.as_ref()),
        }
    }
}

/// Whether our bound was hit, or that of a body limit around us.
pub(crate) fn is_too_large(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}

impl<B> fmt::Debug for BufferedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Untouched { .. } => "untouched",
            State::Buffered { .. } => "buffered",
        };
        f.debug_tuple("BufferedBody").field(&state).finish()
    }
}
