//! The fingerprint, which makes two requests the same request.

use http::request::Parts;
use http::{HeaderName, Uri, header};
use lock_core::idempotency::{Fingerprint, FingerprintBuilder};

use super::query::canonical;

/// Tells a later way of taking fingerprints from this one.
const WAY: &[u8] = b"http/1";

/// The headers that the meaning of a body's bytes depends on.
const REPRESENTATION: [HeaderName; 2] = [header::CONTENT_TYPE, header::CONTENT_ENCODING];

/// SHA-256 over method, path, canonical query, content type and coding, chosen headers and body,
/// each with its length, so that no two requests give the same sequence of fields.
pub(super) fn of_request(head: &Parts, chosen: &[HeaderName], body: &[u8]) -> Fingerprint {
    let uri = uri(head);
    let mut fields = FingerprintBuilder::new()
        .field(WAY)
        .field(head.method.as_str().as_bytes())
        .field(uri.path().as_bytes())
        .field(canonical(uri.query().unwrap_or_default()).as_bytes());
    for name in REPRESENTATION.iter().chain(chosen) {
        let lines = head.headers.get_all(name);
        // With their number, so that the lines of one header are not those of the next.
        fields = fields.field(name.as_str().as_bytes());
        fields = fields.field((lines.iter().count() as u64).to_be_bytes());
        for line in lines {
            fields = fields.field(line.as_bytes());
        }
    }
    fields.field(body).finish()
}

/// Inside a nested router axum cuts the prefix off the path: two mounts would be one endpoint.
#[cfg(feature = "axum")]
fn uri(head: &Parts) -> &Uri {
    head.extensions.get::<axum::extract::OriginalUri>().map_or(&head.uri, |uri| &uri.0)
}

#[cfg(not(feature = "axum"))]
fn uri(head: &Parts) -> &Uri {
    &head.uri
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const CHOSEN: [HeaderName; 2] = [header::ACCEPT, header::ACCEPT_LANGUAGE];

    fn of(request: http::request::Builder, body: &str) -> Fingerprint {
        of_request(&request.body(()).unwrap().into_parts().0, &CHOSEN, body.as_bytes())
    }

    fn pay() -> http::request::Builder {
        Request::post("/pay?a=1&b=2").header("content-type", "text/plain").header("accept", "a")
    }

    #[test]
    fn a_repeated_request_has_the_same_fingerprint() {
        assert_eq!(of(pay(), "body"), of(pay(), "body"));
        assert_eq!(of(pay(), "body"), of(pay().uri("/pay?b=2&a=1"), "body"));
        assert_eq!(of(pay(), "body"), of(pay().uri("https://example.com/pay?a=1&b=2"), "body"));
        assert_eq!(of(pay(), "body"), of(pay().header("x-request-id", "2"), "body"));
    }

    #[test]
    fn each_part_of_a_request_counts() {
        let first = of(pay(), "body");
        for (what, other) in [
            ("method", of(pay().method("PATCH"), "body")),
            ("path", of(pay().uri("/pay/?a=1&b=2"), "body")),
            ("query", of(pay().uri("/pay?a=1&b=3"), "body")),
            ("content type", of(pay().header("content-type", "text/csv"), "body")),
            ("content coding", of(pay().header("content-encoding", "gzip"), "body")),
            ("a chosen header", of(pay().header("accept-language", "de"), "body")),
            ("lines of a chosen header", of(pay().header("accept", "b"), "body")),
            ("body", of(pay(), "body ")),
            ("no body", of(pay(), "")),
        ] {
            assert_ne!(first, other, "{what}");
        }
    }

    #[test]
    fn a_value_does_not_pass_for_one_of_the_next_field() {
        let accept = Request::post("/").header("accept", "a").header("accept", "b");
        let both = Request::post("/").header("accept", "a").header("accept-language", "b");
        assert_ne!(of(accept, ""), of(both, ""));
        assert_ne!(of(Request::post("/a?b"), ""), of(Request::post("/a"), "b"));
    }
}
