//! An answer of the application's own.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use crate::BoxError;

/// The body of an answer that a closure of the application gave.
pub(crate) type CustomBody = UnsyncBoxBody<Bytes, BoxError>;

/// Makes one type of all answers.
pub(crate) fn custom<B>(answer: Response<B>) -> Response<CustomBody>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    answer.map(|body| body.map_err(Into::into).boxed_unsync())
}
