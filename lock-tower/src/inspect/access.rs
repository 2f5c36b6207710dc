//! Access: who may look, who may act, and what a browser may do with the answers.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum_core::response::Response;
use http::header::{
    CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::desk::Desk;

/// A request to `DELETE` carries this header with any value. A page of another site cannot make a
/// browser send it.
pub const FORCE_RELEASE_HEADER: HeaderName = HeaderName::from_static("x-lock-force-release");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Nothing from elsewhere, nothing inline, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Asks who looks, and leaves the viewer to the routes.
pub(super) async fn check<V: Send + Sync + 'static>(
    State(desk): State<Arc<Desk<V>>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let viewer = match (desk.authenticate)(&parts) {
        Ok(viewer) => Arc::new(viewer),
        Err(refusal) => return *refusal,
    };
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(viewer);
    let mut answer = next.run(request).await;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}

/// Whether a request that changes something was meant to: a browser that is led here from another
/// site sends its cookies along.
pub(super) fn is_of_this_site(headers: &HeaderMap) -> Result<(), String> {
    if !headers.contains_key(&FORCE_RELEASE_HEADER) {
        return Err(format!("a request to take a key away carries `{FORCE_RELEASE_HEADER}`"));
    }
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let own = match (text(FETCH_SITE), text(ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        // An older browser, or one without TLS.
        (None, Some(origin)) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority.is_some() && authority == text(HOST)
        }
        // No browser.
        (None, None) => true,
    };
    if own { Ok(()) } else { Err("the request comes from a page of another site".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_requests_of_this_site_or_of_no_browser_may_act() {
        let ours = ("x-lock-force-release", "1");
        let host = ("host", "shop.example:8080");
        for good in [
            &[ours][..],
            &[ours, ("sec-fetch-site", "same-origin"), ("origin", "https://behind.a.proxy")],
            &[ours, ("sec-fetch-site", "none")],
            &[ours, host, ("origin", "http://shop.example:8080")],
        ] {
            assert_eq!(is_of_this_site(&sent(good)), Ok(()), "{good:?}");
        }
        for bad in [
            &[][..],
            &[("sec-fetch-site", "same-origin")],
            &[ours, ("sec-fetch-site", "cross-site")],
            &[ours, ("sec-fetch-site", "same-site")],
            &[ours, host, ("origin", "http://evil.example")],
            &[ours, host, ("origin", "null")],
            &[ours, ("origin", "http://shop.example:8080")],
        ] {
            assert!(is_of_this_site(&sent(bad)).is_err(), "{bad:?}");
        }
    }
}
