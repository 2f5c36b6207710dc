//! What each extractor takes for a key, and what it refuses.

mod common;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::routing::{any, post};
use bytes::Bytes;
use common::{Answer, send};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use lock_core::{Key, LockClient};
use lock_tower::key::{
    Combine, KeyExtractor, KeyReject, fixed, header, json_pointer, key_fn, path, query,
};
use lock_tower::{LockGuardExt, LockLayer};
use tower::{Layer, ServiceExt};

/// The key that the handler runs under, or `-` without one, then the body that it got.
async fn echo(lock: Option<LockGuardExt>, body: String) -> String {
    let key = lock.map_or("-".into(), |LockGuardExt(lock)| lock.key().to_string());
    if body.is_empty() { key } else { format!("{key} {body}") }
}

fn layer() -> LockLayer {
    LockLayer::new(LockClient::memory())
}

/// Sends one request through a key that needs no route.
async fn ask<K>(key: K, request: Request<Body>) -> Answer
where
    K: KeyExtractor<Body>,
    K::Body: http_body::Body<Data = Bytes> + Send + 'static,
    <K::Body as http_body::Body>::Error: Into<lock_tower::BoxError>,
    K::Future: Send,
{
    let app = Router::new().route("/", any(echo)).layer(layer().key(key));
    send(&app, request).await
}

fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

fn json(body: impl Into<Body>) -> Request<Body> {
    Request::post("/").body(body.into()).unwrap()
}

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
        .layer(layer().key(path("{shop}:v1-{rest}")));
    assert_eq!(send(&app, get("/in/a/b/c")).await.text, "a:v1-b%2Fc");
}

#[tokio::test]
async fn a_path_key_works_on_a_method_router_and_in_a_nested_router() {
    let app =
        Router::new().route("/buy/{sku}", any(echo).layer(layer().key(path("buy:{sku}")))).nest(
            "/shop/{shop}",
            Router::new()
                .route("/buy/{sku}", any(echo))
                .route_layer(layer().key(path("{shop}:{sku}"))),
        );
    assert_eq!(send(&app, get("/buy/42")).await.text, "buy:42");
    assert_eq!(send(&app, get("/shop/a/buy/42")).await.text, "a:42");
}

#[tokio::test]
async fn a_path_key_around_the_whole_router_is_a_clear_error() {
    let router = Router::new().route("/buy/{sku}", any(echo));
    let service = layer().key(path("buy:{sku}")).layer(router);
    let errors = Errors::default();
    let listening = tracing::subscriber::set_default(errors.clone());
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
#[should_panic(expected = "one parameter per segment")]
fn a_path_template_that_could_mix_two_values_up_is_refused_at_once() {
    let _ = path("{a}-{b}");
}

#[tokio::test]
async fn a_header_is_one_segment_and_must_stand_there_once() {
    let key = || fixed("account").and(header("x-account"));
    let request = |values: &[&[u8]]| {
        let mut request = get("/");
        for value in values {
            request.headers_mut().append("x-account", HeaderValue::from_bytes(value).unwrap());
        }
        request
    };
    assert_eq!(ask(key(), request(&[b"a:1"])).await.text, "account:a%3A1");
    for (values, code) in [
        (&[][..], "lock_key_missing"),
        (&[&b""[..]], "lock_key_missing"),
        (&[b"a", b"a"], "lock_key_ambiguous"),
        (&[b"\xff"], "lock_key_rejected"),
    ] {
        ask(key(), request(values)).await.assert_problem(400, code);
    }
    let optional = || header("x-account").optional();
    assert_eq!(ask(optional(), request(&[])).await.text, "-");
    let ambiguous = ask(optional(), request(&[b"a", b"b"])).await;
    ambiguous.assert_problem(400, "lock_key_ambiguous");
}

#[tokio::test]
async fn a_query_parameter_is_decoded_and_must_stand_there_once() {
    assert_eq!(ask(query("sku"), get("/?a=1&sku=4+2%2F")).await.text, "4%202%2F");
    ask(query("sku"), get("/")).await.assert_problem(400, "lock_key_missing");
    ask(query("sku"), get("/?sku=")).await.assert_problem(400, "lock_key_missing");
    ask(query("sku"), get("/?sku=1&sku=2")).await.assert_problem(400, "lock_key_ambiguous");
    assert_eq!(ask(query("sku").optional(), get("/?a=1")).await.text, "-");
}

#[tokio::test]
async fn a_closure_locks_skips_or_refuses() {
    let key = |outcome: fn() -> Option<Key>| key_fn(move |_| outcome());
    assert_eq!(ask(key(|| Key::new("job").ok()), get("/")).await.text, "job");
    assert_eq!(ask(key(|| None), get("/")).await.text, "-");
    let invalid = key_fn(|_| Key::new(""));
    ask(invalid, get("/")).await.assert_problem(400, "lock_key_rejected");
    let own = key_fn(|_| {
        KeyReject::new(StatusCode::GONE).with_code("sale_over").with_detail("the sale is over")
    });
    let answer = ask(own, get("/")).await;
    answer.assert_problem(410, "sale_over");
    assert_eq!(answer.problem()["detail"], "the sale is over");
}

#[tokio::test]
async fn two_keys_join_and_the_first_that_skips_or_refuses_decides() {
    let both = || query("a").and(query("b"));
    assert_eq!(ask(both(), get("/?a=1:2&b=3")).await.text, "1%3A2:3");
    ask(both(), get("/?a=1")).await.assert_problem(400, "lock_key_missing");
    let skip = query("a").optional().and(query("b"));
    assert_eq!(ask(skip, get("/")).await.text, "-");
    let long = format!("/?a={0}&b={0}", "x".repeat(300));
    ask(both(), get(&long)).await.assert_problem(400, "lock_key_rejected");
}

#[tokio::test]
async fn the_other_key_is_taken_where_the_first_skips() {
    let either = || header("x-order").optional().or(query("order"));
    assert_eq!(ask(either(), get("/?order=7")).await.text, "7");
    let mut request = get("/?order=7");
    request.headers_mut().insert("x-order", HeaderValue::from_static("8"));
    assert_eq!(ask(either(), request).await.text, "8");
    ask(either(), get("/")).await.assert_problem(400, "lock_key_missing");
    let strict = header("x-order").or(query("order"));
    ask(strict, get("/?order=7")).await.assert_problem(400, "lock_key_missing");
}

#[tokio::test]
async fn a_json_value_is_the_key_and_the_handler_gets_the_body_as_it_was() {
    for (body, pointer, key) in [
        (r#"{ "sku" : "4:2" }"#, "/sku", "4%3A2"),
        (r#"{"sku":42}"#, "/sku", "42"),
        (r#"{"a":[{"b~/":true}]}"#, "/a/0/b~0~1", "true"),
        (r#""plain""#, "", "plain"),
    ] {
        assert_eq!(ask(json_pointer(pointer), json(body)).await.text, format!("{key} {body}"));
    }
}

#[tokio::test]
async fn a_body_without_a_usable_value_is_refused() {
    for (body, code) in [
        (r#"{"sku":null}"#, "lock_key_missing"),
        (r#"{"sku":""}"#, "lock_key_missing"),
        (r#"{"other":1}"#, "lock_key_missing"),
        ("", "lock_key_missing"),
        (r#"{"sku":[1]}"#, "lock_key_rejected"),
        (r#"{"sku":{}}"#, "lock_key_rejected"),
        (r#"{"sku":"#, "lock_body_invalid"),
        ("{\"sku\":\"\u{0}\"}", "lock_body_invalid"),
    ] {
        ask(json_pointer("/sku"), json(body)).await.assert_problem(400, code);
    }
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let key = json_pointer("/0").bytes_max(1 << 20);
    ask(key, json(deep)).await.assert_problem(400, "lock_body_invalid");
    for body in ["", r#"{"other":1}"#] {
        let answer = ask(json_pointer("/sku").optional(), json(body)).await;
        assert_eq!(answer.text, format!("- {body}").trim_end());
    }
}

/// A body of unknown length.
fn chunks(frames: Vec<Result<Frame<Bytes>, std::io::Error>>) -> Request<Body> {
    json(Body::new(StreamBody::new(futures_util::stream::iter(frames))))
}

fn data(text: &'static str) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

#[tokio::test]
async fn a_body_over_the_bound_is_answered_with_413_announced_or_not() {
    let key = || json_pointer("/sku").bytes_max(10);
    assert_eq!(ask(key(), json(r#"{"sku":42}"#)).await.text, r#"42 {"sku":42}"#);
    ask(key(), json(r#"{"sku":423}"#)).await.assert_problem(413, "lock_body_too_large");
    let chunked = chunks(vec![data(r#"{"sku":"#), data("423}")]);
    ask(key(), chunked).await.assert_problem(413, "lock_body_too_large");
    // An announced one is not read at all.
    let frames = StreamBody::new(futures_util::stream::poll_fn(
        |_| -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> { panic!("read") },
    ));
    let announced = json(Body::new(Announced(frames)));
    ask(key(), announced).await.assert_problem(413, "lock_body_too_large");
}

#[tokio::test]
async fn a_limit_around_the_layer_is_told_apart_from_a_body_that_breaks_off() {
    let broken = chunks(vec![data("{"), Err(std::io::Error::other("reset"))]);
    ask(json_pointer("/sku"), broken).await.assert_problem(400, "lock_body_incomplete");
    let limited = http_body_util::Limited::new(Body::from(r#"{"sku":42}"#), 5);
    let limited = json(Body::new(limited));
    ask(json_pointer("/sku"), limited).await.assert_problem(413, "lock_body_too_large");
}

#[tokio::test]
async fn the_trailers_of_a_body_reach_the_handler_too() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("7"));
    let request =
        chunks(vec![data(r#"{"sku""#), data(":42}"), Ok(Frame::trailers(trailers.clone()))]);
    let handler = async |body: Body| {
        let all = body.collect().await.unwrap();
        let sum = all.trailers().and_then(|trailers| trailers.get("x-sum")).cloned();
        format!("{:?} {:?}", sum, all.to_bytes())
    };
    let app = Router::new().route("/", post(handler)).layer(layer().key(json_pointer("/sku")));
    let answer = send(&app, request).await;
    assert_eq!(answer.text, r#"Some("7") b"{\"sku\":42}""#);
}

#[tokio::test]
async fn a_body_that_no_key_was_taken_of_is_passed_on_unread() {
    let never = || json_pointer("/sku").bytes_max(1).when(|_| false);
    assert_eq!(ask(never(), json("long text")).await.text, "- long text");
    let first = fixed("job").or(json_pointer("/sku").bytes_max(1));
    assert_eq!(ask(first, json("long text")).await.text, "job long text");
}

/// Says that it is larger than anybody wants.
struct Announced<B>(B);

impl<B: http_body::Body + Unpin> http_body::Body for Announced<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(cx)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(1 << 40)
    }
}

/// Counts the error events of this crate.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicUsize>);

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR && metadata.target().starts_with("lock_tower")
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
