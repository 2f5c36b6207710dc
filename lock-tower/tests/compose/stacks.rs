//! Whole stacks, as services have them.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::error_handling::HandleErrorLayer;
use axum::middleware::{Next, from_fn};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, SERVER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, MemoryRecords};
use lock_tower::key::{fixed, json_pointer};
use lock_tower::{IdempotencyLayer, LockLayer};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};
use tower_governor::GovernorLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::{RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer};
use tower_http::trace::TraceLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

use crate::common::send;
use crate::stage::{Stage, governed, order, outside, rate, sold};

const LONG: Duration = Duration::from_secs(30);

/// The layers that a service has around its routes, from the outside to the inside.
macro_rules! usual {
    () => {
        ServiceBuilder::new()
            .layer(SetSensitiveRequestHeadersLayer::new([AUTHORIZATION]))
            .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
            .layer(TraceLayer::new_for_http())
            .layer(PropagateRequestIdLayer::x_request_id())
            .layer(CatchPanicLayer::new())
            .layer(SetResponseHeaderLayer::overriding(SERVER, HeaderValue::from_static("shop")))
            .layer(CorsLayer::permissive())
            .layer(CompressionLayer::new())
            .layer(governed!(rate!(100)))
            .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
            .load_shed()
            .layer(GlobalConcurrencyLimitLayer::new(8))
            // The body that it makes has no default, which the next layer wants of its own.
            .layer(ResponseBodyTimeoutLayer::new(LONG))
            .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG))
            .layer(RequestBodyLimitLayer::new(1_024))
            .layer(RequestBodyTimeoutLayer::new(LONG))
            .layer(RequestDecompressionLayer::new())
            .layer(
                ValidateRequestHeaderLayer::has_header_value("authorization", "Bearer ann")
                    .unwrap(),
            )
    };
}

fn for_gzip() -> Request<Body> {
    let mut request = order("k");
    request.headers_mut().insert("accept-encoding", HeaderValue::from_static("gzip"));
    request
}

#[tokio::test(start_paused = true)]
async fn both_layers_stand_inside_and_outside_of_all_that_a_service_has() {
    for index in 0..4 {
        let stage = Stage::new();
        let app = match index {
            0 => stage.shop().layer(usual!().layer(stage.lock())),
            1 => stage.shop().layer(outside!(stage.lock(), usual!())),
            2 => stage.shop().layer(usual!().layer(stage.once())),
            _ => stage.shop().layer(outside!(stage.once(), usual!())),
        };
        let answer = app.clone().oneshot(for_gzip()).await.unwrap();
        assert_eq!(answer.status(), 200, "{index}");
        assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip", "{index}");
        assert_eq!(answer.headers()[SERVER], "shop", "{index}");
        drop(answer);
        stage.is_free("the usual stack").await;
        assert_eq!(stage.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_order_of_the_documentation_runs_an_order_once_under_its_lock() {
    let stage = Stage::new();
    // Two locks in one handler; the stage expects one.
    let both = || ServiceBuilder::new().layer(stage.once()).layer(stage.lock());
    let app = axum::Router::new()
        .route("/buy/{sku}", axum::routing::post(async |what: String| format!("sold: {what}")))
        .layer(usual!().layer(both()));
    let first = app.clone().oneshot(for_gzip()).await.unwrap();
    assert_eq!(
        (first.status(), &first.headers()[CONTENT_ENCODING]),
        (StatusCode::OK, &"gzip".parse().unwrap())
    );
    drop(first);
    let replay = send(&app, order("k")).await;
    assert_eq!((replay.status.as_u16(), replay.text), (200, sold()));
    assert!(replay.headers.contains_key("idempotent-replayed"));
    assert_eq!(stage.locks.stats().acquired, 2, "one for the key, one for the lamp");
    stage.is_free("idempotency outside of the lock").await;
}

#[tokio::test(start_paused = true)]
async fn those_that_know_one_type_of_body_stand_in_one_builder_as_the_documentation_says() {
    let stage = Stage::new();
    let app = stage.shop().layer(
        ServiceBuilder::new()
            .layer(GovernorLayer::new(rate!(100)))
            .map_response(|response: Response<_>| response.map(Body::new))
            .layer(stage.once())
            .map_request(|request: Request<_>| request.map(Body::new))
            .layer(from_fn(async |request: Request<Body>, next: Next| next.run(request).await)),
    );
    stage.orders(&app, "idempotency").await;
    let app = stage.shop().layer(
        ServiceBuilder::new()
            .layer(GovernorLayer::new(rate!(100)))
            .map_response(|response: Response<_>| response.map(Body::new))
            .layer(stage.lock())
            .layer(from_fn(async |request: Request<Body>, next: Next| next.run(request).await)),
    );
    stage.orders(&app, "the lock").await;
    // One by one, none needs help.
    let app = stage.shop();
    let app =
        app.layer(from_fn(async |request: Request<Body>, next: Next| next.run(request).await));
    let app = app.layer(stage.lock()).layer(GovernorLayer::new(rate!(100)));
    stage.orders(&app, "a router").await;
}

/// The body of a service without axum.
type Plain = Full<Bytes>;

async fn plain(
    request: Request<impl http_body::Body<Data = Bytes, Error: Into<BoxError>>>,
) -> Result<Response<Plain>, BoxError> {
    let body = request.into_body().collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::new(Full::from(body)))
}

#[tokio::test(start_paused = true)]
async fn services_without_axum_stand_behind_the_same_layers() {
    let locks = LockClient::memory();
    let lock = || LockLayer::new(locks.clone()).key(fixed("lamp"));
    let by_body = || LockLayer::new(locks.clone()).key(json_pointer("buy:{/sku}"));
    let engine = Idempotency::new("tests", locks.clone(), MemoryRecords::new());
    let once = || IdempotencyLayer::new(engine.clone()).global_scope();
    macro_rules! around {
        ($ours:expr) => {
            ServiceBuilder::new()
                .layer(TraceLayer::new_for_http())
                .layer(CompressionLayer::new())
                .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG))
                .layer(RequestBodyLimitLayer::new(1_024))
                .layer($ours)
                .layer(ResponseBodyTimeoutLayer::new(LONG))
                .layer(RequestBodyTimeoutLayer::new(LONG))
                .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONG))
                .timeout(LONG)
                .service_fn(plain)
        };
    }
    let request = || {
        let request = Request::post("/").header("idempotency-key", "k");
        request.body(Plain::from(r#"{"sku":"lamp"}"#)).unwrap()
    };
    macro_rules! sends {
        ($ours:expr) => {{
            let answer = around!($ours).oneshot(request()).await.unwrap();
            assert_eq!(answer.status(), 200);
            let body = Body::new(answer.into_body()).collect().await.unwrap().to_bytes();
            assert_eq!(body, r#"{"sku":"lamp"}"#);
        }};
    }
    sends!(lock());
    sends!(by_body());
    sends!(once());
    sends!(once());
    assert_eq!(locks.stats().acquired, 3, "the last one was a replay");
}
