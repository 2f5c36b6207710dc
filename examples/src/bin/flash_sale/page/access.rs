//! Nobody but this machine, and nothing from elsewhere.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The header that the page sends with all that changes something: no page of another site can.
const OURS: HeaderName = HeaderName::from_static("x-flash-sale");

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

pub(super) async fn check(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_this_machine) {
        return (StatusCode::FORBIDDEN, "this page is for this machine").into_response();
    }
    if request.method() == Method::POST && !request.headers().contains_key(OURS) {
        return (StatusCode::FORBIDDEN, "this does not come from the page").into_response();
    }
    let mut answer = next.run(request).await;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Whether a request that was sent to `host` was meant for this machine.
fn is_this_machine(host: &str) -> bool {
    let Ok(uri) = host.parse::<Uri>() else { return false };
    let name = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn what_changes_something_must_come_from_the_page_itself() {
        let routes = Router::new().route("/rush", post(async || "")).layer(from_fn(check));
        for (host, header, status) in [
            ("localhost:8080", "x-flash-sale", StatusCode::OK),
            ("localhost:8080", "x-other", StatusCode::FORBIDDEN),
            ("evil.example", "x-flash-sale", StatusCode::FORBIDDEN),
        ] {
            let request = Request::post("/rush").header(HOST, host).header(header, "1");
            let answer = routes.clone().oneshot(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.unwrap().status(), status, "{host} {header}");
        }
    }

    #[test]
    fn a_name_that_leads_here_is_not_the_name_of_this_machine() {
        for good in ["localhost", "localhost:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:8080"] {
            assert!(is_this_machine(good), "{good}");
        }
        for bad in
            ["", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "[::2]:80", "a b"]
        {
            assert!(!is_this_machine(bad), "{bad}");
        }
    }
}
