//! gRPC: an answer as trailers and no message.
//!
//! A JSON body would be read as a broken frame, and a status other than 200 as a fault of a proxy.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use lock_core::problem::Problem;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::protobuf::Message;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The `domain` of the `ErrorInfo`, within which its `reason` is unique.
const DOMAIN: &str = "lock-tower";

/// All headers of an answer share 8 KiB with some clients.
const DETAIL_BYTES_MAX: usize = 1_024;

/// The longest that a duration of protobuf can be, in seconds.
const SECONDS_MAX: u64 = 315_576_000_000;

/// How a client wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// With a problem document.
    Http,
    /// With trailers, under this content type.
    Grpc(&'static str),
}

impl Wire {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let mut parts = content_type.split(|byte| b"+; \t".contains(byte));
        let essence = parts.next().unwrap_or_default();
        let known = [
            ("application/grpc", "application/grpc"),
            ("application/grpc-web", "application/grpc-web+proto"),
            ("application/grpc-web-text", "application/grpc-web-text+proto"),
        ];
        let known = known.iter().find(|(name, _)| essence.eq_ignore_ascii_case(name.as_bytes()));
        known.map_or(Self::Http, |(_, answered)| Self::Grpc(answered))
    }
}

/// A status code of gRPC that an answer can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrpcCode {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

impl From<StatusCode> for GrpcCode {
    fn from(status: StatusCode) -> Self {
        match status.as_u16() {
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::NotFound,
            408 | 504 => Self::DeadlineExceeded,
            409 | 423 | 425 => Self::Aborted,
            412 | 422 | 424 => Self::FailedPrecondition,
            429 => Self::ResourceExhausted,
            501 => Self::Unimplemented,
            502 | 503 => Self::Unavailable,
            400..=499 => Self::InvalidArgument,
            _ => Self::Internal,
        }
    }
}

/// The answer of this code, under this content type.
pub(super) fn trailers_only(
    code: GrpcCode,
    problem: &Problem<'_>,
    content_type: &'static str,
) -> Response<Full<Bytes>> {
    let detail = shortened(problem.detail());
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(STATUS, HeaderValue::from(code as u16));
    let details = details(code, problem, detail);
    let texts = [
        (MESSAGE, percent_encoded(detail)),
        (RETRY_PUSHBACK, pushback_ms(problem.retry_after()).to_string()),
        (DETAILS, STANDARD_NO_PAD.encode(details.as_bytes())),
    ];
    for (name, text) in texts {
        // All three are visible ASCII and spaces by now.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
    response
}

/// When the client's own retries may go on. Negative: not at all, whatever its policy says.
fn pushback_ms(retry_after: Option<Duration>) -> i32 {
    retry_after.map_or(-1, |after| i32::try_from(after.as_millis()).unwrap_or(i32::MAX))
}

/// Whatever is not printable, and `%` itself.
fn percent_encoded(detail: &str) -> String {
    const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
    utf8_percent_encode(detail, ESCAPED).to_string()
}

fn shortened(detail: &str) -> &str {
    let mut end = detail.len().min(DETAIL_BYTES_MAX);
    while !detail.is_char_boundary(end) {
        end -= 1;
    }
    &detail[..end]
}

/// A `google.rpc.Status` with its `RetryInfo` and `ErrorInfo`.
fn details(code: GrpcCode, problem: &Problem<'_>, detail: &str) -> Message {
    let info = Message::default().text(1, problem.code()).text(2, DOMAIN);
    let mut status = Message::default().number(1, code as u64).text(2, detail);
    if let Some(after) = problem.retry_after() {
        let delay = Message::default().number(1, after.as_secs().min(SECONDS_MAX));
        let retry = Message::default().message(1, &delay);
        status = status.message(3, &any("google.rpc.RetryInfo", &retry));
    }
    status.message(3, &any("google.rpc.ErrorInfo", &info))
}

/// A `google.protobuf.Any`.
fn any(name: &str, value: &Message) -> Message {
    Message::default().text(1, &format!("type.googleapis.com/{name}")).message(2, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(content_type: &'static str) -> Wire {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Wire::of(&headers)
    }

    #[test]
    fn a_request_is_grpc_by_its_content_type_alone() {
        for grpc in [
            "application/grpc",
            "application/grpc+proto",
            "Application/GRPC+json",
            "application/grpc;charset=utf-8",
        ] {
            assert_eq!(wire(grpc), Wire::Grpc("application/grpc"), "{grpc}");
        }
        assert_eq!(wire("application/grpc-web+proto"), Wire::Grpc("application/grpc-web+proto"));
        let text = wire("application/grpc-web-text");
        assert_eq!(text, Wire::Grpc("application/grpc-web-text+proto"));
        for http in ["", "application/json", "application/grpcs", "text/application/grpc"] {
            assert_eq!(wire(http), Wire::Http, "{http}");
        }
        assert_eq!(Wire::of(&HeaderMap::new()), Wire::Http);
    }

    #[test]
    fn a_message_is_encoded_and_cut_between_two_characters() {
        assert_eq!(percent_encoded("100 % of \u{e9}\n~"), "100 %25 of %C3%A9%0A~");
        let long = "\u{e9}".repeat(600);
        assert_eq!(shortened(&long).len(), DETAIL_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(shortened(&odd).len(), DETAIL_BYTES_MAX - 1);
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn a_delay_that_no_client_can_read_is_the_longest_that_it_can() {
        assert_eq!(pushback_ms(None), -1);
        assert_eq!(pushback_ms(Some(Duration::from_secs(2))), 2_000);
        assert_eq!(pushback_ms(Some(Duration::MAX)), i32::MAX);
    }
}
