//! Reads a response for its record, within bounds.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, header};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::pieces::Pieces;
use crate::{BoxError, clock};

/// The reading of a response: done, or still under way.
pub(super) enum Capture<R> {
    Done(Captured<R>),
    /// As far as it was there, and nobody has said how much is to come.
    Flowing(Reading<R>),
}

/// How far a response could be read.
pub(super) enum Captured<R> {
    /// To its end.
    Whole { data: Bytes, trailers: Option<HeaderMap> },
    /// To a bound; the rest is still to be read.
    Beyond { data: Bytes, rest: Pin<Box<R>> },
    /// To its error, or to an end that its head belies.
    Broken { data: Bytes, error: BoxError },
}

/// A body on its way into a record.
pub(super) struct Reading<R> {
    // Boxed, as what is left of it goes on to the client.
    body: Pin<Box<R>>,
    read: Pieces,
    bytes_max: usize,
    /// When it is taken for a stream.
    pub(super) until: Instant,
}

/// The place where the reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    End,
    /// The body is longer than its record may be.
    Bound,
}

impl<R> Captured<R> {
    /// A whole body of another length than its head announces is taken for a broken one: it was
    /// cut, and nobody said so. Its record, whose length is made anew, would pass for all of it.
    pub(super) fn of_length(self, headers: &HeaderMap) -> Self {
        let Self::Whole { data, trailers } = self else { return self };
        let mut announced = headers.get_all(header::CONTENT_LENGTH).iter();
        if announced.all(|value| length(value) == Some(data.len())) {
            return Self::Whole { data, trailers };
        }
        let error = format!("the body has {} bytes, and `content-length` says another", data.len());
        tracing::error!("a response is not stored: {error}");
        Self::Broken { data, error: error.into() }
    }
}

fn length(value: &HeaderValue) -> Option<usize> {
    // A sign, which `parse` would take, is none of a length.
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|it| it.is_ascii_digit()))?;
    digits.parse().ok()
}

impl<R> Reading<R> {
    /// Reads at most `bytes_max`, and a frame beyond them. Each piece is `passed_on` as it comes.
    ///
    /// # Cancel safety
    ///
    /// Reads on where it was.
    pub(super) async fn read_on(&mut self, passed_on: impl Fn(&Bytes)) -> Result<Stop, BoxError>
    where
        R: Body,
        R::Error: Into<BoxError>,
    {
        while let Some(frame) = self.body.frame().await {
            match frame.map_err(Into::into)?.into_data() {
                Ok(mut data) => {
                    let data = data.copy_to_bytes(data.remaining());
                    passed_on(&data);
                    self.read.add(data);
                }
                Err(frame) => {
                    // They are the last frame.
                    self.read.trailers = frame.into_trailers().ok();
                    return Ok(Stop::End);
                }
            }
            if self.read.len() > self.bytes_max {
                return Ok(Stop::Bound);
            }
        }
        Ok(Stop::End)
    }

    /// The data that was read by now.
    pub(super) fn so_far(&self) -> Bytes {
        self.read.so_far()
    }

    /// The data that was read to the end, and the trailers.
    pub(super) fn into_whole(mut self) -> (Bytes, Option<HeaderMap>) {
        let trailers = self.read.trailers.take();
        (self.read.into_bytes(), trailers)
    }

    /// The rest of the body.
    pub(super) fn into_rest(self) -> Pin<Box<R>> {
        self.body
    }
}

/// Reads a body that was `announced`, in its length, for at most `wait`. Of any other it reads what
/// is there: who waits for more holds up the head of a stream.
///
/// # Cancel safety
///
/// Dropping it drops the body.
pub(super) async fn capture<R>(
    body: R,
    announced: bool,
    bytes_max: usize,
    wait: Duration,
) -> Capture<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    let least = body.size_hint().lower();
    let announced = announced || body.size_hint().exact().is_some();
    let until = clock::after(clock::now(), wait);
    let mut reading = Reading { body: Box::pin(body), read: Pieces::default(), bytes_max, until };
    if usize::try_from(least).map_or(true, |bytes| bytes > bytes_max) {
        return Capture::Done(Captured::Beyond { data: Bytes::new(), rest: reading.body });
    }
    let reads = reading.read_on(|_| {});
    let ended = if announced {
        tokio::time::timeout_at(until, reads).await.ok()
    } else {
        match reads.now_or_never() {
            Some(ended) => Some(ended),
            None => return Capture::Flowing(reading),
        }
    };
    Capture::Done(match ended {
        Some(Ok(Stop::End)) => {
            let (data, trailers) = reading.into_whole();
            Captured::Whole { data, trailers }
        }
        Some(Ok(Stop::Bound)) | None => {
            Captured::Beyond { data: reading.read.into_bytes(), rest: reading.body }
        }
        Some(Err(error)) => Captured::Broken { data: reading.read.into_bytes(), error },
    })
}
