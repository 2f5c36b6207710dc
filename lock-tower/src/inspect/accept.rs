//! The kind of answer that a client would rather have.

use http::HeaderMap;
use http::header::ACCEPT;

/// The kinds of answers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// For programs, and for whoever does not say.
    Json,
    /// For browsers.
    Html,
    /// For an `EventSource`.
    Events,
}

/// The kind that is named with the greatest weight. Ranges such as `*/*` name none.
pub(super) fn preferred(headers: &HeaderMap) -> Kind {
    let mut best = (Kind::Json, 0.0);
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "application/json" => Kind::Json,
            "text/html" => Kind::Html,
            "text/event-stream" => Kind::Events,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if weight > best.1 {
            best = (kind, weight);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn browsers_have_the_page_and_programs_json() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, kind) in [
            ("", Kind::Json),
            ("*/*", Kind::Json),
            ("application/json", Kind::Json),
            (browser, Kind::Html),
            ("TEXT/HTML ; q=0.5 , application/json;q=0.4", Kind::Html),
            ("text/html;q=0.5, application/json", Kind::Json),
            ("text/html;q=0", Kind::Json),
            ("text/html;q=banana", Kind::Html),
            ("text/event-stream", Kind::Events),
            (",;,;q=,", Kind::Json),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(preferred(&headers), kind, "{accept}");
        }
        assert_eq!(preferred(&HeaderMap::new()), Kind::Json);
    }
}
