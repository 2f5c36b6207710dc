//! Handlers behind a router.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, debug_handler};
use lock_core::{AcquireError, LockClient, distributed_lock};
use tower::ServiceExt as _;

use crate::holder;

#[derive(Clone, FromRef)]
struct App {
    locks: LockClient,
}

#[distributed_lock(key = "order:{id}", wait = "10ms", guard = g)]
#[debug_handler(state = App)]
async fn opaque(State(app): State<App>, Path(id): Path<String>) -> impl IntoResponse {
    assert_eq!(app.locks.stats().held, 1);
    (StatusCode::CREATED, format!("{id} {}", g.key()))
}

#[debug_handler(state = App)]
#[distributed_lock(key = "order:{id}", wait = "10ms")]
async fn concrete(State(app): State<App>, Path(id): Path<String>) -> Response {
    drop(app);
    id.into_response()
}

#[distributed_lock(key = "order:{id}", wait = "10ms")]
async fn outcome(State(app): State<App>, Path(id): Path<String>) -> Result<String, AcquireError> {
    drop(app);
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = "10ms")]
async fn errors(State(app): State<App>, Path(id): Path<String>) -> axum::response::Result<String> {
    drop(app);
    Ok(id)
}

#[distributed_lock(key = "order:{id}", wait = "10ms", on_busy = |error| {
    (StatusCode::LOCKED, error.is_timeout().to_string())
})]
async fn answered(State(app): State<App>, Path(id): Path<String>) -> impl IntoResponse {
    drop(app);
    id
}

#[distributed_lock(key = "order:{id}", hold = "10ms")]
async fn slow(State(_app): State<App>, Path(id): Path<String>) -> impl IntoResponse {
    std::future::pending::<()>().await;
    id
}

async fn ask(locks: &LockClient, path: &str) -> (StatusCode, Option<String>, String) {
    let router = Router::new()
        .route("/opaque/{id}", get(opaque))
        .route("/concrete/{id}", get(concrete))
        .route("/outcome/{id}", get(outcome))
        .route("/errors/{id}", get(errors))
        .route("/answered/{id}", get(answered))
        .route("/slow/{id}", get(slow))
        .with_state(App { locks: locks.clone() });
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let header = |name| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
    let (status, retry_after) = (response.status(), header(header::RETRY_AFTER));
    let body = to_bytes(response.into_body(), 10_000).await.unwrap();
    (status, retry_after, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_client_comes_from_the_state_and_a_path_can_not_forge_a_key() {
    let locks = LockClient::memory();
    let (status, _, body) = ask(&locks, "/opaque/7%3A8").await;
    assert_eq!((status, &*body), (StatusCode::CREATED, "7:8 order:7%3A8"));
    for route in ["concrete", "outcome", "errors", "answered"] {
        let (status, _, body) = ask(&locks, &format!("/{route}/7")).await;
        assert_eq!((status, &*body), (StatusCode::OK, "7"), "{route}");
    }
    assert_eq!(locks.stats().acquired, 5);
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_a_problem_document_that_says_when_to_come_back() {
    let locks = LockClient::memory();
    let _other = holder(&locks, "order:7").await;
    for route in ["opaque", "concrete", "outcome", "errors"] {
        let (status, retry_after, body) = ask(&locks, &format!("/{route}/7")).await;
        assert_eq!(status, StatusCode::CONFLICT, "{route}");
        let seconds: u64 = retry_after.expect("a Retry-After").parse().unwrap();
        assert!((1..=2).contains(&seconds), "{route}: {seconds}");
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&"lock_timeout".into(), &409.into()));
        assert_eq!(problem["retry_after"], seconds, "{route}");
        assert!(!body.contains("order"), "the key is nobody else's business: {body}");
    }
    let (status, _, body) = ask(&locks, "/answered/7").await;
    assert_eq!((status, &*body), (StatusCode::LOCKED, "true"));
}

#[tokio::test(start_paused = true)]
async fn each_failure_has_its_own_status_and_code() {
    let locks = LockClient::memory();
    let long = "x".repeat(600);
    let (status, _, body) = ask(&locks, &format!("/opaque/{long}")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains(r#""code":"lock_key_rejected""#), "{body}");
    let (status, _, body) = ask(&locks, "/slow/7").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains(r#""code":"lock_lost""#), "{body}");
    locks.shutdown(std::time::Duration::from_secs(1)).await;
    let (status, _, body) = ask(&locks, "/opaque/7").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains(r#""code":"lock_closed""#), "{body}");
}
