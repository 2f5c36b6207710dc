//! The headers of a response that are replayed.

use http::header::{self, HeaderMap, HeaderName};

/// Replayed unless told otherwise: what says what the body is, and where the result is.
///
/// `content-encoding` belongs here as the body is stored in its coding: without the header it
/// would be garbage, and `grpc-…` as a response of gRPC is none without its status.
const REPLAYED: [HeaderName; 13] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LOCATION,
    header::LOCATION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("grpc-encoding"),
];

/// Never replayed: what belongs to one exchange, to one connection, or to one client's secrets.
/// `content-length` is made anew from the body.
const NEVER: [HeaderName; 14] = [
    header::SET_COOKIE,
    header::AUTHORIZATION,
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::DATE,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The names of the headers that a replay has; no other is stored.
#[derive(Debug, Clone)]
pub(super) struct Replayed {
    names: Vec<HeaderName>,
}

impl Default for Replayed {
    fn default() -> Self {
        Self { names: REPLAYED.into() }
    }
}

impl Replayed {
    /// Adds a name, unless it is one that is never replayed.
    pub(super) fn add(&mut self, name: HeaderName) -> Result<(), HeaderName> {
        if NEVER.contains(&name) || name == super::REPLAYED_HEADER {
            return Err(name);
        }
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        Ok(())
    }

    /// The part of these headers that is kept, in their order and with their repeats.
    pub(super) fn of(&self, headers: &HeaderMap) -> HeaderMap {
        let mut kept = HeaderMap::new();
        for (name, value) in headers {
            if self.names.contains(name) && !is_hop_by_hop(headers, name) {
                kept.append(name, value.clone());
            }
        }
        kept
    }
}

/// `Connection` names headers of this connection only, whatever they are (RFC 9110, 7.6.1).
fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    let mut options = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn order_and_repeats_are_kept_and_secrets_and_dates_are_not() {
        let all = headers(&[
            ("set-cookie", "session=1"),
            ("link", "</b>"),
            ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("content-type", "text/plain"),
            ("x-request-id", "1"),
            ("content-length", "4"),
        ]);
        let mut all = all;
        all.append("link", HeaderValue::from_static("</a>"));
        let kept = Replayed::default().of(&all);
        let kept: Vec<_> = kept.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(kept, [("link", "</b>"), ("link", "</a>"), ("content-type", "text/plain")]);
    }

    #[test]
    fn a_header_that_is_named_by_connection_is_not_kept() {
        let all = headers(&[("connection", "close, Link"), ("link", "</a>"), ("etag", "\"1\"")]);
        let kept = Replayed::default().of(&all);
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["etag"]);
    }

    #[test]
    fn a_name_is_added_unless_it_is_never_replayed() {
        let mut replayed = Replayed::default();
        assert_eq!(replayed.add(HeaderName::from_static("x-order")), Ok(()));
        assert_eq!(replayed.of(&headers(&[("x-order", "1")])).len(), 1);
        for name in NEVER {
            assert_eq!(replayed.add(name.clone()), Err(name));
        }
    }
}
