//! Layers that answer by themselves: whoever stands outside costs no lock.

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, ORIGIN};
use http::{HeaderName, HeaderValue, Method, Request};
use tower::{Layer as _, ServiceBuilder, ServiceExt as _};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::normalize_path::NormalizePathLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::validate_request::ValidateRequestHeaderLayer;

use crate::common::{ms, send};
use crate::stage::{Stage, governed, order, outside, places, rate, sold};

/// How many locks a refusal in that place has taken.
fn locks_taken(place: &str) -> u64 {
    u64::from(place.starts_with("inside"))
}

/// Requests that another layer refuses are answered by it in each place, beside both of ours.
macro_rules! assert_refused {
    ($request:expr, $status:literal, $layer:expr) => {
        for index in 0..6 {
            let stage = Stage::new();
            let (place, app) = places!(stage.shop(), stage.lock(), $layer).swap_remove(index);
            assert_eq!(send(&app, $request).await.status.as_u16(), $status, "{place}");
            assert_eq!(stage.locks.stats().acquired, locks_taken(place), "{place}");
            stage.is_free(place).await;
            let (place, app) = places!(stage.shop(), stage.once(), $layer).swap_remove(index);
            assert_eq!(send(&app, $request).await.status.as_u16(), $status, "{place}");
            stage.is_free(place).await;
            assert_eq!(stage.runs(), 0, "{place}");
        }
    };
}

#[tokio::test(start_paused = true)]
async fn a_request_without_its_token_is_refused_by_the_validation() {
    let stranger = || {
        let mut request = order("k");
        request.headers_mut().remove(AUTHORIZATION);
        request
    };
    assert_refused!(
        stranger(),
        403,
        ValidateRequestHeaderLayer::has_header_value("authorization", "Bearer ann").unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_over_its_rate_is_refused_by_the_governor() {
    // Whoever came before has used the rate up.
    let used_up = || {
        let rate = rate!(1);
        assert!(rate.limiter().check_key(&[192, 0, 2, 1].into()).is_ok());
        rate
    };
    assert_refused!(order("k"), 429, governed!(used_up()));
}

#[tokio::test(start_paused = true)]
async fn a_body_over_its_limit_is_refused_by_the_limit() {
    // By its announced length; one that announces none is cut where it is read.
    let long = || {
        let mut request = order("k");
        request.headers_mut().insert("content-length", HeaderValue::from_static("55"));
        request
    };
    assert_refused!(long(), 413, RequestBodyLimitLayer::new(16));
    let stage = Stage::new();
    let app = stage.shop().layer(outside!(RequestBodyLimitLayer::new(16), stage.once()));
    send(&app, order("k")).await.assert_problem(413, "idempotency_body_too_large");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_in_each_place_and_its_lock_is_given_up() {
    let shop = || Router::new().route("/buy/{sku}", post(async || -> &'static str { panic!() }));
    for index in 0..6 {
        let stage = Stage::new();
        let caught = CatchPanicLayer::new;
        let (place, app) = places!(shop(), stage.lock(), caught()).swap_remove(index);
        assert_eq!(send(&app, order("k")).await.status.as_u16(), 500, "{place}");
        stage.is_free(place).await;
        let (place, app) = places!(shop(), stage.once(), caught()).swap_remove(index);
        assert_eq!(send(&app, order("k")).await.status.as_u16(), 500, "{place}");
        stage.is_free(place).await;
        assert_eq!(stage.locks.stats().acquired, 2, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn outside_cors_answers_preflights_without_a_lock_and_lets_browsers_read_refusals() {
    let stage = Stage::new();
    let held = stage.locks.lock("buy:lamp").await.unwrap();
    let origin = HeaderValue::from_static("https://shop.example");
    let sent = |method: Method| {
        let mut request = order("k");
        *request.method_mut() = method;
        request.headers_mut().insert(ORIGIN, origin.clone());
        request
    };
    let mut preflight = sent(Method::OPTIONS);
    let asked = HeaderName::from_static("access-control-request-method");
    preflight.headers_mut().insert(asked, HeaderValue::from_static("POST"));
    let lock = || stage.lock().wait(ms(20)).retries(0);
    let app = stage.shop().layer(outside!(CorsLayer::permissive(), lock()));
    assert_eq!(send(&app, preflight).await.status, 200);
    let busy = send(&app, sent(Method::POST)).await;
    assert_eq!(busy.code(), "lock_timeout");
    assert!(busy.headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));

    let app = stage.shop().layer(outside!(lock(), CorsLayer::permissive()));
    let busy = send(&app, sent(Method::POST)).await;
    assert_eq!(busy.code(), "lock_timeout");
    assert!(!busy.headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "as the docs say");
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn outside_a_request_id_is_on_refusals_and_replays_too() {
    let stage = Stage::new();
    let ids = || {
        let set = SetRequestIdLayer::x_request_id(MakeRequestUuid);
        outside!(set, PropagateRequestIdLayer::x_request_id())
    };
    let app = stage.shop().layer(outside!(ids(), stage.once()));
    let (first, replay) = (send(&app, order("k")).await, send(&app, order("k")).await);
    assert_eq!((&first.text, &replay.text), (&sold(), &sold()));
    assert_ne!(first.headers["x-request-id"], replay.headers["x-request-id"]);
    let keyless = Request::post("/buy/lamp").body(Body::empty()).unwrap();
    let refused = send(&app, keyless).await;
    assert_eq!(refused.status, 400);
    assert!(refused.headers.contains_key("x-request-id"));
    let app = stage.shop().layer(outside!(stage.once(), ids()));
    let replay = send(&app, order("k")).await;
    assert!(!replay.headers.contains_key("x-request-id"), "as the docs say");
}

#[tokio::test(start_paused = true)]
async fn around_a_whole_router_paths_that_are_made_equal_are_one_key_and_one_request() {
    let stage = Stage::new();
    let at = |path: &str| {
        let mut request = order("k");
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    let both = ServiceBuilder::new().layer(stage.once());
    let app = stage.shop().layer(both);
    let app = NormalizePathLayer::trim_trailing_slash().layer(app);
    for path in ["/buy/lamp", "/buy/lamp/"] {
        let answer = app.clone().oneshot(at(path)).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }
    assert_eq!(stage.runs(), 1);
}
