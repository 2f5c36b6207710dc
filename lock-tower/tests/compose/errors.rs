//! Tower's own layers, whose refusals are errors that something must turn into answers.

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;
use tower::{BoxError, ServiceBuilder};

use crate::common::{Probe, ms, send, settle, spawn};
use crate::stage::{Stage, order, outside};

async fn answered(error: BoxError) -> Response {
    if error.is::<Elapsed>() {
        (StatusCode::REQUEST_TIMEOUT, "too slow").into_response()
    } else if error.is::<Overloaded>() {
        (StatusCode::SERVICE_UNAVAILABLE, "too many").into_response()
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
    }
}

fn gated(probe: &Probe) -> Router {
    let probe = probe.clone();
    Router::new().route("/buy/{sku}", post(move || probe.clone().visit()))
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_timeout_inside_passes_through_and_is_answered_outside() {
    let stage = Stage::new();
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(HandleErrorLayer::new(answered));
    let app = gated(&probe).layer(stack.clone().layer(stage.lock()).timeout(ms(100)));
    let answer = send(&app, order("k")).await;
    assert_eq!((answer.status.as_u16(), &*answer.text), (408, "too slow"));
    stage.is_free("inside of the lock").await;
    let app = gated(&probe).layer(stack.layer(stage.once()).timeout(ms(100)));
    let answer = send(&app, order("k")).await;
    assert_eq!(answer.status.as_u16(), 408);
    stage.is_free("inside of idempotency").await;
    assert_eq!((probe.entered(), probe.inside(), probe.finished()), (2, 0, 0));
}

/// A limit of so many requests, and what is answered for those beyond it.
macro_rules! shedding {
    ($limit:expr) => {
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(answered))
            .load_shed()
            .layer(GlobalConcurrencyLimitLayer::new($limit))
    };
}

#[tokio::test(start_paused = true)]
async fn a_limit_outside_counts_those_who_wait_and_sheds_before_the_line() {
    let stage = Stage::new();
    let probe = Probe::new();
    let app = gated(&probe).layer(shedding!(2).layer(stage.lock()));
    let (runs, waits) = (spawn(&app, order("a")), spawn(&app, order("b")));
    settle().await;
    assert_eq!((probe.inside(), stage.locks.stats().waiters), (1, 1));
    let shed = send(&app, order("c")).await;
    assert_eq!((shed.status.as_u16(), &*shed.text), (503, "too many"));
    assert_eq!(stage.locks.stats().waiters, 1);
    probe.let_through(2);
    assert_eq!(
        (runs.await.unwrap().text, waits.await.unwrap().text),
        ("done".into(), "done".into())
    );
    stage.is_free("outside").await;
}

/// Two orders of one lamp, the second while the first runs, and who waits for the lock then.
async fn two_orders(stage: &Stage, probe: &Probe, app: &Router) -> (usize, [String; 2]) {
    let runs = spawn(app, order("a"));
    settle().await;
    let waits = spawn(app, order("b"));
    settle().await;
    assert_eq!(probe.inside(), 1);
    let waiters = stage.locks.stats().waiters;
    probe.let_through(2);
    let told = [runs.await.unwrap().text, waits.await.unwrap().text];
    stage.is_free("inside").await;
    (waiters, told)
}

#[tokio::test(start_paused = true)]
async fn a_limit_inside_counts_who_waits_unless_errors_are_answered_inside_too() {
    let stage = Stage::new();
    let done = || ["done".to_owned(), "done".to_owned()];
    let limit = || GlobalConcurrencyLimitLayer::new(1);
    // It waits for the limit before it stands in line.
    let probe = Probe::new();
    let app = gated(&probe).layer(outside!(stage.lock(), limit()));
    assert_eq!(two_orders(&stage, &probe, &app).await, (0, done()));
    // It was judged when it came, and is told so after its wait.
    let probe = Probe::new();
    let errors = ServiceBuilder::new().layer(HandleErrorLayer::new(answered));
    let app = gated(&probe).layer(errors.layer(stage.lock()).load_shed().layer(limit()));
    let shed = ["done".to_owned(), "too many".to_owned()];
    assert_eq!(two_orders(&stage, &probe, &app).await, (1, shed));
    // It is judged when it runs.
    let probe = Probe::new();
    let app = gated(&probe).layer(outside!(stage.lock(), shedding!(1)));
    assert_eq!(two_orders(&stage, &probe, &app).await, (1, done()));
}
