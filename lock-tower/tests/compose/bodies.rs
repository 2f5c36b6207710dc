//! Bodies that are compressed on their way in or out.

use axum::body::{Body, Bytes, to_bytes};
use axum::routing::post;
use axum::{Json, Router};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderValue, Request, Response};
use lock_tower::HoldUntil;
use lock_tower::key::json_pointer;
use tower::{ServiceExt as _, service_fn};
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;

use crate::common::send;
use crate::stage::{Stage, order, outside, places, sold};

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// An order of a client that reads gzip.
fn gzip_order() -> Request<Body> {
    let mut request = order("k");
    request.headers_mut().insert(ACCEPT_ENCODING, GZIP);
    request
}

/// The bytes of `text` when it is compressed.
async fn gzip(text: &'static str) -> Bytes {
    let plain =
        service_fn(async |_: Request<Body>| Ok::<_, std::io::Error>(Response::new(text.into())));
    let packed = tower::Layer::layer(&CompressionLayer::new(), plain.map_response(plain_type));
    let answer = packed.oneshot(gzip_order()).await.unwrap();
    assert_eq!(answer.headers()[CONTENT_ENCODING], GZIP);
    to_bytes(Body::new(answer.into_body()), usize::MAX).await.unwrap()
}

fn plain_type(answer: Response<Body>) -> Response<Body> {
    answer
}

#[tokio::test(start_paused = true)]
async fn a_response_is_compressed_in_each_place_however_long_its_lock_is_held() {
    for until in [HoldUntil::ResponseHead, HoldUntil::ResponseBody] {
        let stage = Stage::new();
        let lock = || stage.lock().hold_until(until);
        for (place, app) in places!(stage.shop(), lock(), CompressionLayer::new()) {
            let answer = app.oneshot(gzip_order()).await.unwrap();
            assert_eq!(answer.headers()[CONTENT_ENCODING], GZIP, "{place}");
            let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert!(body.starts_with(&[0x1f, 0x8b]) && body.len() < sold().len(), "{place}");
            stage.is_free(place).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outside_of_idempotency_each_retry_has_the_coding_that_it_asks_for() {
    let stage = Stage::new();
    let app = stage.shop().layer(outside!(CompressionLayer::new(), stage.once()));
    let packed = app.clone().oneshot(gzip_order()).await.unwrap();
    assert_eq!(packed.headers()[CONTENT_ENCODING], GZIP);
    let plain = send(&app, order("k")).await;
    assert_eq!((plain.text, stage.runs()), (sold(), 1));
    assert!(!plain.headers.contains_key(CONTENT_ENCODING));
    assert!(plain.headers.contains_key("idempotent-replayed"));
}

#[tokio::test(start_paused = true)]
async fn a_key_in_the_body_is_found_where_the_body_is_unpacked_outside() {
    let stage = Stage::new();
    let text = r#"{"sku":"lamp","what":"a lamp, a lamp, a lamp, a lamp, a lamp, a lamp"}"#;
    let packed = gzip(text).await;
    let request = || {
        let request = Request::post("/buy").header("content-type", "application/json");
        let request = request.header(CONTENT_ENCODING, GZIP).header(CONTENT_LENGTH, packed.len());
        request.body(Body::from(packed.clone())).unwrap()
    };
    let shop = || {
        let what = async |Json(order): Json<serde_json::Value>| order["sku"].to_string();
        Router::new().route("/buy", post(what))
    };
    let lock = || stage.lock().key(json_pointer("buy:{/sku}"));
    let app = shop().layer(outside!(RequestDecompressionLayer::new(), lock()));
    let answer = send(&app, request()).await;
    assert_eq!((answer.status.as_u16(), &*answer.text), (200, "\"lamp\""));
    assert_eq!(stage.locks.stats().acquired, 1);
    let app = shop().layer(outside!(lock(), RequestDecompressionLayer::new()));
    send(&app, request()).await.assert_problem(400, "lock_body_invalid");
}
