//! The responses that say that they are streams.

use http::{HeaderMap, header};

/// Media types of bodies that are sent as they are made, for as long as somebody listens.
const STREAMS: [&[u8]; 5] = [
    b"text/event-stream",
    b"application/x-ndjson",
    b"application/jsonl",
    b"application/json-seq",
    b"multipart/x-mixed-replace",
];

/// Whether a response is a stream by its `content-type`. It is never stored, and never held up.
pub(super) fn is_declared(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = content_type.and_then(|value| value.split(|byte| *byte == b';').next());
    let essence = essence.map(<[u8]>::trim_ascii);
    essence.is_some_and(|it| STREAMS.iter().any(|stream| it.eq_ignore_ascii_case(stream)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_stream_is_known_by_its_media_type_in_any_case_and_with_parameters() {
        for (content_type, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream; charset=utf-8", true),
            ("application/x-ndjson", true),
            ("application/jsonl", true),
            ("application/json-seq", true),
            ("multipart/x-mixed-replace;boundary=x", true),
            ("application/grpc", false),
            ("application/json", false),
            ("application/jsonlines", false),
            ("text/plain; a=text/event-stream", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(content_type);
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, value)]);
            assert_eq!(is_declared(&headers), expected, "{content_type}");
        }
        assert!(!is_declared(&HeaderMap::new()));
    }
}
