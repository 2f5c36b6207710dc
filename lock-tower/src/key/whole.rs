//! The reading of a request body.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::Body;
use http_body_util::Limited;
use pin_project_lite::pin_project;

use crate::BoxError;
use crate::pieces::Pieces;

pin_project! {
    /// Reads a body to its end, and at most `bytes_max` of it: an error that
    /// [`is_too_large`](super::is_too_large) knows tells that there was more.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the body.
    pub(crate) struct Whole<B> {
        #[pin]
        body: Limited<B>,
        read: Pieces,
    }
}

impl<B> Whole<B> {
    pub(crate) fn of(body: B, bytes_max: usize) -> Self {
        Self { body: Limited::new(body, bytes_max), read: Pieces::default() }
    }
}

impl<B> Future for Whole<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Output = Result<Pieces, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        while let Some(frame) = ready!(this.body.as_mut().poll_frame(cx)?) {
            match frame.into_data() {
                Ok(data) => this.read.add(data),
                Err(frame) => this.read.trailers = frame.into_trailers().ok(),
            }
        }
        Poll::Ready(Ok(std::mem::take(this.read)))
    }
}
