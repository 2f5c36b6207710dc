//! A handler that is cut in the middle, by whatever stands around it, in whichever order: its
//! outcome is unknown, and `on_unknown` decides about the retry.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use lock_core::idempotency::{Idempotency, OnUnknown};
use lock_core::scope::HandlerRan;
use lock_core::{AcquireError, LockClient, distributed_lock};
use lock_tower::idempotency::{HasScope, OnDisconnect};
use lock_tower::key::{BufferedBody, fixed};
use lock_tower::{FencingToken, IdempotencyLayer, LockLayer};
use tower::timeout::{Timeout, TimeoutLayer};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer as HttpTimeoutLayer;

use crate::common::{ms, send, settle, spawn};
use crate::fixture::{Runs, engine, once, order};

const CUT: Duration = Duration::from_millis(100);

/// A lock of 100 ms on all requests.
fn short_lock() -> LockLayer<lock_tower::key::FixedKey> {
    LockLayer::new(LockClient::memory()).key(fixed("till")).hold_limit(CUT)
}

/// `POST /orders`, whose first run never ends by itself, and a later one tells its token.
fn endless(runs: &Runs) -> Router {
    let handler =
        async |Extension(runs): Extension<Runs>, token: Option<FencingToken>| match runs.next() {
            1 => pending().await,
            run => format!("run {run} {}", token.is_some()),
        };
    Router::new().route("/orders", post(handler)).layer(Extension(runs.clone()))
}

#[distributed_lock(key = "till", client = locks, hold = "100ms")]
async fn locked(locks: LockClient, runs: Runs) -> Result<String, AcquireError> {
    match runs.next() {
        1 => pending().await,
        run => Ok(format!("run {run} true")),
    }
}

fn locked_by_macro(runs: &Runs) -> Router {
    let (locks, runs) = (LockClient::memory(), runs.clone());
    Router::new().route("/orders", post(async move || locked(locks, runs).await))
}

fn panicking(runs: &Runs) -> Router {
    let runs = runs.clone();
    let handler = async move || {
        let run = runs.next();
        assert_ne!(run, 1, "the handler's own");
        format!("run {run} true")
    };
    Router::new().route("/orders", post(handler))
}

fn timed_out(runs: &Runs) -> Router {
    let handle = HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE);
    let stack = ServiceBuilder::new().layer(handle).layer(TimeoutLayer::new(CUT));
    endless(runs).layer(stack)
}

fn timed_out_over_http(runs: &Runs, status: StatusCode) -> Router {
    endless(runs).layer(HttpTimeoutLayer::with_status_code(status, CUT))
}

/// Each way in which something inside of the layer cuts a handler, and whether it says so.
fn all_that_cut(runs: &Runs) -> Vec<(&'static str, Router, bool)> {
    vec![
        ("a lock layer", endless(runs).layer(short_lock()), true),
        ("#[distributed_lock]", locked_by_macro(runs), true),
        ("tower's timeout", timed_out(runs), false),
        ("a 408", timed_out_over_http(runs, StatusCode::REQUEST_TIMEOUT), false),
        ("a 504", timed_out_over_http(runs, StatusCode::GATEWAY_TIMEOUT), false),
        ("a panic that was caught", panicking(runs).layer(CatchPanicLayer::new()), false),
        ("a panic", panicking(runs), false),
    ]
}

fn refusing(engine: &Idempotency) -> IdempotencyLayer<HasScope> {
    once(engine).on_unknown(OnUnknown::Refuse)
}

const ALL: usize = 7;

#[tokio::test(start_paused = true)]
async fn under_refuse_a_handler_that_was_cut_inside_of_the_layer_never_runs_again() {
    for action in [OnDisconnect::Finish, OnDisconnect::Abort] {
        for n in 0..ALL {
            let runs = Runs::default();
            let (what, inner, _) = all_that_cut(&runs).swap_remove(n);
            let (engine, records) = engine();
            let app = inner.layer(refusing(&engine).on_disconnect(action));
            let first = send(&app, order("k")).await;
            assert!(first.status.is_server_error() || first.status == 408, "{what}: {first:?}");
            for _ in 0..2 {
                settle().await;
                let retry = send(&app, order("k")).await;
                assert_eq!(retry.code(), "idempotency_outcome_unknown", "{what}: {retry:?}");
            }
            assert_eq!((runs.count(), records.len()), (1, 1), "{what}");
            assert_eq!(engine.locks().stats().held, 0, "{what}");
        }
    }
}

/// Its head came before it was cut, and so did the status that it would have had.
#[tokio::test(start_paused = true)]
async fn under_refuse_a_stream_of_grpc_that_was_cut_never_runs_again() {
    const ABORTED: &str = "10";
    let (runs, locks) = (Runs::default(), LockClient::memory());
    let (engine, _) = engine();
    let app = runs.shop(refusing(&engine), {
        let inner = Runs::default();
        move |_| {
            let (locks, inner) = (locks.clone(), inner.clone());
            let work = async move {
                let code = if locked(locks, inner).await.is_ok() { "0" } else { ABORTED };
                let status =
                    (HeaderName::from_static("grpc-status"), HeaderValue::from_static(code));
                stream::iter([Ok::<_, Infallible>(Frame::<Bytes>::trailers(
                    [status].into_iter().collect(),
                ))])
            };
            Body::new(StreamBody::new(work.flatten_stream()))
        }
    });
    let first = app.clone().oneshot(order("k")).await.unwrap().into_body();
    assert_eq!(first.collect().await.unwrap().trailers().unwrap()["grpc-status"], ABORTED);
    settle().await;
    let retry = send(&app, order("k")).await;
    assert_eq!(retry.code(), "idempotency_outcome_unknown", "{retry:?}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn under_reexecute_a_handler_that_was_cut_runs_again_and_a_cut_that_is_told_is_counted() {
    for n in 0..ALL {
        let runs = Runs::default();
        let (what, inner, told) = all_that_cut(&runs).swap_remove(n);
        let (engine, _) = engine();
        let app = inner.layer(once(&engine));
        send(&app, order("k")).await;
        settle().await;
        assert_eq!(send(&app, order("k")).await.text, "run 2 true", "{what}");
        let stats = engine.stats();
        assert_eq!((stats.unknown, stats.aborted), (u64::from(told), u64::from(!told)), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_runs_again_after_a_cut_has_a_greater_token() {
    let (engine, _) = engine();
    let (tokens, mut told) = tokio::sync::mpsc::unbounded_channel();
    // Before the lock inside hides it.
    let note = axum::middleware::map_request(move |request: Request<Body>| {
        let token = request.extensions().get::<lock_core::FencingToken>().copied();
        tokens.send(token.unwrap()).unwrap();
        std::future::ready(request)
    });
    let app = endless(&Runs::default()).layer(short_lock()).layer(note).layer(once(&engine));
    assert_eq!(send(&app, order("k")).await.code(), "lock_lost");
    assert_eq!(send(&app, order("k")).await.text, "run 2 true");
    let (first, second) = (told.recv().await.unwrap(), told.recv().await.unwrap());
    assert!(second > first, "{second} after {first}");
    assert_eq!(engine.stats().unknown, 1, "it knows that it replaced one");
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_lock_layer_or_a_timeout_around_the_layer_runs_the_handler_once() {
    for action in [OnDisconnect::Finish, OnDisconnect::Abort] {
        for (what, around_lock) in [("a lock layer", true), ("a timeout", false)] {
            let runs = Runs::default();
            let (engine, _) = engine();
            let counting = runs.clone();
            let handler = async move || {
                counting.next();
                tokio::time::sleep(Duration::from_secs(1)).await;
                "at last"
            };
            let app = Router::new().route("/orders", post(handler));
            let app = app.layer(refusing(&engine).on_disconnect(action));
            let app = match around_lock {
                true => app.layer(short_lock()),
                false => {
                    app.layer(HttpTimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, CUT))
                }
            };
            assert!(send(&app, order("k")).await.status.is_server_error(), "{what}");
            tokio::time::sleep(Duration::from_secs(2)).await;
            let retry = send(&app, order("k")).await;
            match action {
                OnDisconnect::Finish => assert_eq!(retry.text, "at last", "{what}"),
                _ => retry.assert_problem(409, "idempotency_outcome_unknown"),
            }
            assert_eq!(runs.count(), 1, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_refuse_an_error_of_the_service_leaves_the_outcome_unknown() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let counting = runs.clone();
    let slow = service_fn(move |_: Request<BufferedBody<Full<Bytes>>>| {
        counting.next();
        pending::<Result<http::Response<Full<Bytes>>, Infallible>>()
    });
    let service = refusing(&engine).layer(Timeout::new(slow, CUT));
    let pay = || Request::post("/").header("idempotency-key", "k").body(Full::default()).unwrap();
    assert!(service.clone().oneshot(pay()).await.is_err());
    settle().await;
    assert_eq!(service.oneshot(pay()).await.unwrap().status(), 409);
    assert_eq!(runs.count(), 1);
}

/// An answer of somebody who stands before the handler, and says how far that one got.
fn told(ran: HandlerRan, status: StatusCode) -> Response {
    let mut response = (status, "not the handler's").into_response();
    response.extensions_mut().insert(ran);
    response
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_says_that_nothing_ran_is_never_stored_and_a_retry_runs() {
    for status in [StatusCode::CONFLICT, StatusCode::SERVICE_UNAVAILABLE, StatusCode::NOT_FOUND] {
        for layer in [once, refusing] {
            let (engine, records) = engine();
            let app =
                Runs::default().shop(layer(&engine).store_everything(), move |run| match run {
                    1 => told(HandlerRan::No, status),
                    _ => "the handler's".into_response(),
                });
            assert_eq!(send(&app, order("k")).await.status, status);
            assert_eq!(records.len(), 0);
            assert_eq!(send(&app, order("k")).await.text, "the handler's");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_says_that_the_handler_was_cut_is_never_stored_whatever_its_status() {
    for status in [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::SWITCHING_PROTOCOLS] {
        let (engine, _) = engine();
        let runs = Runs::default();
        let app = runs
            .shop(refusing(&engine).store_everything(), move |_| told(HandlerRan::InPart, status));
        assert_eq!(send(&app, order("k")).await.status, status);
        settle().await;
        send(&app, order("k")).await.assert_problem(409, "idempotency_outcome_unknown");
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_failure_that_is_stored_is_replayed_as_before() {
    let (engine, _) = engine();
    let app = Runs::default().shop(refusing(&engine).store_everything(), |run| {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("run {run}"))
    });
    for _ in 0..2 {
        assert_eq!(send(&app, order("k")).await.text, "run 1");
    }
}

#[tokio::test(start_paused = true)]
async fn under_refuse_what_depends_on_the_moment_runs_again_as_before() {
    let (engine, _) = engine();
    let app = Runs::default().shop(refusing(&engine), |run| match run {
        1 => StatusCode::CONFLICT,
        2 => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::OK,
    });
    for status in [409, 429, 200, 200] {
        assert_eq!(send(&app, order("k")).await.status, status);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answers_of_the_layer_tell_another_one_around_it_how_far_the_handler_got() {
    let (engine, records) = engine();
    let panicking = Runs::default().shop(once(&engine), |_| -> &'static str { panic!("its own") });
    let ran = async |app: &Router, key| {
        let response = app.clone().oneshot(order(key)).await.unwrap();
        response.extensions().get::<HandlerRan>().copied()
    };
    assert_eq!(ran(&panicking, "k").await, Some(HandlerRan::InPart));
    assert_eq!(ran(&panicking, "a,b").await, Some(HandlerRan::No));
    records.fail(lock_core::backend::FaultKind::Transient);
    assert_eq!(ran(&panicking, "k").await, Some(HandlerRan::No));
    records.heal();
    let fine = Runs::default().shop(once(&engine), |_| "fine");
    for _ in 0..2 {
        assert_eq!(ran(&fine, "other").await, None, "its response is the handler's");
    }
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_client_that_goes_away_runs_the_handler_once_whatever_becomes_of_it() {
    for (action, locked) in [
        (OnDisconnect::Finish, false),
        (OnDisconnect::Finish, true),
        (OnDisconnect::Abort, false),
        (OnDisconnect::Abort, true),
    ] {
        let (engine, _) = engine();
        let runs = Runs::default();
        let inner = endless(&runs);
        let inner = if locked { inner.layer(short_lock()) } else { inner };
        let app = inner.layer(refusing(&engine).on_disconnect(action));
        let gone = spawn(&app, order("k"));
        settle().await;
        gone.abort();
        settle().await;
        tokio::time::sleep(ms(200)).await;
        let retry = send(&app, order("k")).await;
        let cut = locked || action == OnDisconnect::Abort;
        let code = if cut { "idempotency_outcome_unknown" } else { "idempotency_in_flight" };
        assert_eq!(retry.code(), code, "{action:?} {locked}: {retry:?}");
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_cut_that_the_handler_made_into_another_answer_never_runs_again() {
    let runs = Runs::default();
    let (locks, seen) = (LockClient::memory(), runs.clone());
    // A status after which a retry runs, if it is the handler's own.
    let handler = async move || locked(locks, seen).await.map_err(|_| StatusCode::CONFLICT);
    let (engine, _) = engine();
    let app = Router::new().route("/orders", post(handler)).layer(refusing(&engine));
    assert_eq!(send(&app, order("k")).await.status, StatusCode::CONFLICT);
    settle().await;
    let retry = send(&app, order("k")).await;
    assert_eq!(retry.code(), "idempotency_outcome_unknown", "{retry:?}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_inside_that_was_busy_is_stored_by_nothing() {
    let (locks, runs) = (LockClient::memory(), Runs::default());
    let held = locks.lock("till").await.unwrap();
    let lock = LockLayer::new(locks).key(fixed("till")).wait(Duration::ZERO);
    let seen = runs.clone();
    let handler = async move || format!("run {}", seen.next());
    let (engine, _) = engine();
    let layer = refusing(&engine).store_everything();
    let app = Router::new().route("/orders", post(handler)).layer(lock).layer(layer);
    for _ in 0..2 {
        send(&app, order("k")).await.assert_problem(409, "lock_timeout");
        settle().await;
    }
    held.release().await.unwrap();
    assert_eq!(send(&app, order("k")).await.text, "run 1");
    assert_eq!(send(&app, order("k")).await.text, "run 1");
}

#[tokio::test(start_paused = true)]
async fn under_refuse_that_a_second_try_did_not_begin_says_nothing_of_the_first_that_was_cut() {
    let (locks, runs) = (LockClient::memory(), Runs::default());
    let (till, seen) = (locks.clone(), runs.clone());
    let handler = async move || {
        let cut = locked(till.clone(), seen).await;
        assert!(cut.unwrap_err().is_lost());
        // As of a second service behind a lock layer, which was busy.
        let mut busy = StatusCode::CONFLICT.into_response();
        busy.extensions_mut().insert(HandlerRan::No);
        busy
    };
    let (engine, _) = engine();
    let app = Router::new().route("/orders", post(handler)).layer(refusing(&engine));
    send(&app, order("k")).await;
    settle().await;
    let retry = send(&app, order("k")).await;
    assert_eq!(retry.code(), "idempotency_outcome_unknown", "{retry:?}");
}

#[tokio::test(start_paused = true)]
async fn under_refuse_an_error_of_grpc_that_looks_like_a_cut_never_runs_again() {
    for (code, runs_again) in
        [("4", false), ("14", false), ("13", false), ("8", true), ("10", true)]
    {
        let runs = Runs::default();
        let seen = runs.clone();
        let handler = async move || {
            seen.next();
            ([("grpc-status", code), ("content-type", "application/grpc")], "")
        };
        let (engine, _) = engine();
        let app = Router::new().route("/orders", post(handler)).layer(refusing(&engine));
        for _ in 0..2 {
            send(&app, order("k")).await;
            settle().await;
        }
        assert_eq!(runs.count() == 2, runs_again, "grpc-status {code}");
    }
}
