//! A request body whose bytes are counted as they arrive.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Full, Place};
use crate::BoxError;

pin_project! {
    /// Ends with [`NoRoom`] where the place may hold no more.
    pub(in crate::idempotency) struct Metered<'a, B> {
        #[pin]
        body: B,
        place: &'a mut Place,
    }
}

/// More bytes arrived than may be in memory.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("too many bytes of requests wait")]
pub(in crate::idempotency) struct NoRoom(pub(in crate::idempotency) Full);

impl<'a, B> Metered<'a, B> {
    pub(in crate::idempotency) fn new(body: B, place: &'a mut Place) -> Self {
        Self { body, place }
    }
}

impl<B> Body for Metered<'_, B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx).map_err(Into::into)?);
        let bytes = frame.as_ref().and_then(Frame::data_ref).map_or(0, Buf::remaining);
        Poll::Ready(match this.place.hold(bytes) {
            Ok(()) => frame.map(Ok),
            Err(full) => Some(Err(NoRoom(full).into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
