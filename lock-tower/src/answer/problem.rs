//! The problem document, and when to come back.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

use crate::clock;

/// `Retry-After` in whole seconds, with its jitter: see the module.
pub(crate) fn retry_after(estimate: Duration) -> Duration {
    Duration::from_secs(retry_after_s(estimate, clock::random_bits()))
}

fn retry_after_s(estimate: Duration, random: u32) -> u64 {
    let whole = estimate.as_secs().saturating_add((estimate.subsec_nanos() > 0).into());
    let whole = whole.max(1);
    let spread = (whole / 4).max(1);
    whole.saturating_add(u64::from(random) % (spread + 1))
}

/// A problem document.
pub(crate) fn problem(
    status: StatusCode,
    code: &'static str,
    detail: &str,
    retry_after: Option<Duration>,
) -> Response<Full<Bytes>> {
    let mut document = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Refused"),
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(after) = retry_after {
        document["retry_after"] = after.as_secs().into();
        headers.insert(RETRY_AFTER, after.as_secs().into());
    }
    *response.body_mut() = Full::from(document.to_string());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_the_estimate_rounded_up_with_a_quarter_of_jitter() {
        for (estimate_ms, least, most) in
            [(0, 1, 2), (1, 1, 2), (1_000, 1, 2), (1_001, 2, 3), (8_000, 8, 10), (60_000, 60, 75)]
        {
            let estimate = Duration::from_millis(estimate_ms);
            let all: Vec<_> = (0..1_000).map(|random| retry_after_s(estimate, random)).collect();
            assert_eq!(all.iter().min(), Some(&least));
            assert_eq!(all.iter().max(), Some(&most));
        }
    }

    #[test]
    fn an_endless_estimate_does_not_overflow() {
        assert_eq!(retry_after_s(Duration::MAX, u32::MAX), u64::MAX);
    }
}
