//! Keys of path parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::routing::any;
use http::StatusCode;
use http_body_util::BodyExt;
use lock_tower::key::{Combine, fixed, path};
use tower::{Layer, ServiceExt};

use crate::common::listen::listen;
use crate::common::send;
use crate::fixture::{echo, get, layer};

#[tokio::test]
async fn a_path_parameter_is_decoded_once_and_cannot_forge_another_key() {
    let app = Router::new()
        .route("/buy/{sku}", any(echo))
        .route("/in/{shop}/{*rest}", any(echo))
        .route_layer(layer().key(path("buy:{sku}").or(fixed("never"))));
    assert_eq!(send(&app, get("/buy/42")).await.text, "buy:42");
    assert_eq!(send(&app, get("/buy/4%2F2%3A")).await.text, "buy:4%2F2%3A");
    assert_eq!(send(&app, get("/buy/%FF")).await.code(), "lock_key_rejected");

    let app = Router::new()
        .route("/in/{shop}/{*rest}", any(echo))
        .layer(layer().key(path("in:{shop}:v1-{rest}")));
    assert_eq!(send(&app, get("/in/a/b/c")).await.text, "in:a:v1-b%2Fc");
}

#[tokio::test]
async fn a_path_key_works_on_a_method_router_and_in_a_nested_router() {
    let app =
        Router::new().route("/buy/{sku}", any(echo).layer(layer().key(path("buy:{sku}")))).nest(
            "/shop/{shop}",
            Router::new()
                .route("/buy/{sku}", any(echo))
                .route_layer(layer().key(path("shop:{shop}:{sku}"))),
        );
    assert_eq!(send(&app, get("/buy/42")).await.text, "buy:42");
    assert_eq!(send(&app, get("/shop/a/buy/42")).await.text, "shop:a:42");
}

#[tokio::test]
async fn a_path_key_around_the_whole_router_is_a_clear_error() {
    let router = Router::new().route("/buy/{sku}", any(echo));
    let service = layer().key(path("buy:{sku}")).layer(router);
    let errors = Errors::default();
    let listening = listen(errors.clone());
    let response = service.oneshot(get("/buy/42")).await.unwrap();
    drop(listening);
    assert_eq!(errors.0.load(SeqCst), 1, "error events");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["code"], "lock_path_not_matched");
    assert!(problem["detail"].as_str().unwrap().contains("route_layer"));
}

#[tokio::test]
async fn a_route_without_the_parameter_is_a_clear_error_and_an_unknown_path_stays_404() {
    let app = Router::new()
        .route("/health", any(echo))
        .route("/buy/{sku}", any(echo))
        .layer(layer().key(path("buy:{sku}")));
    let answer = send(&app, get("/health")).await;
    answer.assert_problem(500, "lock_path_param_missing");
    assert!(answer.text.contains("/health") && answer.text.contains("sku"));
    send(&app, get("/nowhere")).await.assert_problem(404, "lock_no_route");
}

#[test]
#[should_panic(expected = "one part per segment")]
fn a_path_template_that_could_mix_two_values_up_is_refused_at_once() {
    let _ = path("buy:{a}-{b}");
}

#[tokio::test]
async fn a_parameter_that_nesting_gives_twice_is_a_clear_error() {
    let inner =
        Router::new().route("/buy/{sku}", any(echo)).route_layer(layer().key(path("buy:{sku}")));
    let app = Router::new().nest_service("/of/{sku}", inner);
    let answer = send(&app, get("/of/1/buy/2")).await;
    answer.assert_problem(500, "lock_path_param_ambiguous");
}

/// A line at ERROR that nobody has come to before.
fn a_line() {
    tracing::error!("a line");
}

#[test]
fn a_line_that_another_thread_comes_to_first_is_heard() {
    let errors = Errors::default();
    let listening = listen(errors.clone());
    std::thread::spawn(a_line).join().unwrap();
    a_line();
    drop(listening);
    assert_eq!(errors.0.load(SeqCst), 1);
}

/// Counts the error events of this crate, its tests included.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicUsize>);

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
            && ["lock_tower", module_path!()].iter().any(|it| metadata.target().starts_with(it))
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
