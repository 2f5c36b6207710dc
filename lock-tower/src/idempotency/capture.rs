//! Reads a response for its record, within bounds.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::Body;
use http_body_util::BodyExt;

use crate::BoxError;
use crate::pieces::Pieces;

/// How far a response could be read.
pub(super) enum Captured<R> {
    /// To its end.
    Whole { data: Bytes, trailers: Option<HeaderMap> },
    /// To a bound; the rest is still to be read.
    Beyond { data: Bytes, rest: Pin<Box<R>> },
    /// To its error, or to an end that its head belies.
    Broken { data: Bytes, error: BoxError },
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

/// Reads at most `bytes_max`, and a frame beyond them, for at most `wait`.
///
/// # Cancel safety
///
/// Dropping it drops the body.
pub(super) async fn capture<R>(body: R, bytes_max: usize, wait: Duration) -> Captured<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    let announced = body.size_hint().lower();
    // Boxed, as what is left of it goes on to the client.
    let mut body = Box::pin(body);
    let mut read = Pieces::default();
    if usize::try_from(announced).map_or(true, |bytes| bytes > bytes_max) {
        return Captured::Beyond { data: Bytes::new(), rest: body };
    }
    let to_the_end = async {
        while let Some(frame) = body.frame().await {
            match frame.map_err(Into::into)?.into_data() {
                Ok(data) => read.add(data),
                Err(frame) => {
                    // They are the last frame.
                    read.trailers = frame.into_trailers().ok();
                    return Ok(true);
                }
            }
            if read.len() > bytes_max {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let ended = tokio::time::timeout(wait, to_the_end).await;
    match ended {
        Ok(Ok(true)) => {
            let trailers = read.trailers.take();
            Captured::Whole { data: read.into_bytes(), trailers }
        }
        Ok(Ok(false)) | Err(_) => Captured::Beyond { data: read.into_bytes(), rest: body },
        Ok(Err(error)) => Captured::Broken { data: read.into_bytes(), error },
    }
}
