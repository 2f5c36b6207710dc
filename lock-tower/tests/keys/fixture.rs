//! Requests through one extractor, answered with the key that they ran under.

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderValue, Request};
use lock_core::LockClient;
use lock_tower::key::KeyExtractor;
use lock_tower::{LockGuardExt, LockLayer};

use crate::common::{Answer, send};

/// The key that the handler runs under, or `-` without one, then the body that it got.
pub(crate) async fn echo(lock: Option<LockGuardExt>, body: String) -> String {
    let key = lock.map_or("-".into(), |LockGuardExt(lock)| lock.key().to_string());
    if body.is_empty() { key } else { format!("{key} {body}") }
}

pub(crate) fn layer() -> LockLayer {
    LockLayer::new(LockClient::memory())
}

/// Sends one request through a key that needs no route.
pub(crate) async fn ask<K>(key: K, request: Request<Body>) -> Answer
where
    K: KeyExtractor<Body>,
    K::Body: http_body::Body<Data = Bytes> + Send + 'static,
    <K::Body as http_body::Body>::Error: Into<lock_tower::BoxError>,
    K::Future: Send,
{
    let app = Router::new().route("/", any(echo)).layer(layer().key(key));
    send(&app, request).await
}

pub(crate) fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

pub(crate) fn json(body: impl Into<Body>) -> Request<Body> {
    Request::post("/").body(body.into()).unwrap()
}

/// One line of a header for each value.
pub(crate) fn lines<const N: usize>(name: &'static str, values: [&[u8]; N]) -> Request<Body> {
    let mut request = get("/");
    for value in values {
        request.headers_mut().append(name, HeaderValue::from_bytes(value).unwrap());
    }
    request
}
