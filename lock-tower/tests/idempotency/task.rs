//! Rules 13 and 17: a client that goes away, and a handler that panics.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use futures_util::{StreamExt, poll, stream};
use http::Request;
use lock_core::idempotency::Duplicates;
use lock_tower::LockLayer;
use lock_tower::idempotency::OnDisconnect;
use lock_tower::key::fixed;
use tower::{Layer, ServiceExt};

use crate::common::{Probe, ms, send, settle, spawn};
use crate::fixture::{Runs, engine, gated, once, order, request};

#[tokio::test(start_paused = true)]
async fn rule_13_a_handler_whose_client_goes_away_runs_on_and_its_response_is_stored() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine), &probe);
    let gone = spawn(&app, order("k"));
    settle().await;
    gone.abort();
    settle().await;
    assert_eq!((probe.entered(), probe.inside()), (1, 1), "it runs on");
    let retry = spawn(&app, order("k"));
    settle().await;
    probe.let_through(1);
    let retry = retry.await.unwrap();
    assert_eq!((&*retry.text, retry.headers.contains_key("idempotent-replayed")), ("done", true));
    assert_eq!((probe.entered(), probe.finished()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn rule_13_a_response_is_read_to_its_end_when_nobody_is_there_to_read_it() {
    let (engine, _) = engine();
    let (frames, mut receiver) = tokio::sync::mpsc::unbounded_channel::<&str>();
    let body = Body::from_stream(stream::poll_fn(move |cx| {
        receiver.poll_recv(cx).map(|text| text.map(|text| Ok::<_, Infallible>(Bytes::from(text))))
    }));
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(body)));
    let handler = async move || body.lock().unwrap().take().expect("it runs once");
    let app = Router::new().route("/orders", post(handler)).layer(once(&engine));
    let gone = spawn(&app, order("k"));
    settle().await;
    frames.send("one, ").unwrap();
    gone.abort();
    settle().await;
    frames.send("two").unwrap();
    drop(frames);
    assert_eq!(send(&app, order("k")).await.text, "one, two");
}

#[tokio::test(start_paused = true)]
async fn rule_13_a_handler_is_dropped_with_its_record_where_that_was_chosen() {
    let (engine, records) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine).on_disconnect(OnDisconnect::Abort), &probe);
    let gone = spawn(&app, order("k"));
    settle().await;
    assert_eq!((probe.inside(), records.len()), (1, 1));
    gone.abort();
    settle().await;
    assert_eq!((probe.inside(), records.len(), engine.locks().stats().held), (0, 0, 0));
    probe.let_through(1);
    let retry = send(&app, order("k")).await;
    assert_eq!((&*retry.text, probe.entered(), probe.finished()), ("done", 2, 1));
}

#[tokio::test(start_paused = true)]
async fn rule_13_a_client_that_goes_away_while_it_waits_leaves_the_line_and_never_runs() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine), &probe);
    let first = spawn(&app, order("k"));
    settle().await;
    let second = spawn(&app, order("k"));
    settle().await;
    second.abort();
    settle().await;
    probe.let_through(1);
    assert_eq!(first.await.unwrap().text, "done");
    assert_eq!((probe.entered(), engine.stats().busy), (1, 0));
}

/// Polls the response future so many times, and drops it; true if it was ready before.
async fn dropped_after(polls: usize, app: &Router) -> bool {
    let frames = stream::iter(["one ", "of ", "them"]).then(async |text| {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(Bytes::from(text))
    });
    let request = request("k").body(Body::from_stream(Box::pin(frames))).unwrap();
    let mut response = Box::pin(app.clone().oneshot(request));
    for _ in 0..polls {
        if poll!(&mut response).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn rule_13_wherever_a_client_goes_away_its_order_is_placed_once_and_nothing_is_left() {
    for action in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let (mut polls, mut ready) = (0, false);
        while !ready {
            let (engine, records) = engine();
            let (begun, placed) = (Runs::default(), Runs::default());
            let (beginning, placing) = (begun.clone(), placed.clone());
            let handler = async move || {
                beginning.next();
                tokio::task::yield_now().await;
                placing.next();
                tokio::task::yield_now().await;
                "placed"
            };
            let layer = once(&engine).on_disconnect(action);
            let app = Router::new().route("/orders", post(handler)).layer(layer);
            ready = dropped_after(polls, &app).await;
            settle().await;
            assert_eq!(send(&app, order("k")).await.text, "placed", "after {polls} polls");
            settle().await;
            if action == OnDisconnect::Finish {
                assert_eq!((begun.count(), placed.count()), (1, 1), "after {polls} polls");
            }
            let left = (engine.stats().busy, engine.locks().stats().held, records.len());
            assert_eq!(left, (0, 0, 1), "after {polls} polls");
            polls += 1;
        }
        assert!(polls > 6, "only {polls} polls to the end: {action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_17_a_panic_in_the_handler_is_answered_with_500_and_a_retry_runs_at_once() {
    for action in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let (engine, records) = engine();
        let layer = once(&engine).on_disconnect(action).duplicates(Duplicates::Reject);
        let app = Runs::default().shop(layer, |run| {
            assert_ne!(run, 1, "the handler's own");
            format!("run {run}")
        });
        let answer = send(&app, order("k")).await;
        answer.assert_problem(500, "idempotency_handler_panicked");
        assert!(!answer.text.contains("own"), "{}", answer.text);
        assert_eq!((records.len(), engine.stats().aborted), (0, 1));
        assert_eq!(send(&app, order("k")).await.text, "run 2");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_17_a_panic_in_the_response_body_is_a_panic_of_the_handler() {
    let (engine, _) = engine();
    let app = Runs::default().shop(once(&engine), |run| {
        Body::from_stream(stream::iter(0..2).map(move |frame| {
            assert!(run > 1 || frame == 0, "the body's own");
            Ok::<_, Infallible>(Bytes::from(format!("{run}.{frame} ")))
        }))
    });
    send(&app, order("k")).await.assert_problem(500, "idempotency_handler_panicked");
    assert_eq!(send(&app, order("k")).await.text, "2.0 2.1 ");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_store_if_is_none_of_the_handler_which_never_runs_again() {
    for action in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let (engine, _) = engine();
        let runs = Runs::default();
        let layer = once(&engine).on_disconnect(action).store_if(|_| panic!("the predicate's own"));
        let app = runs.shop(layer, |_| "sold");
        assert_eq!(send(&app, order("k")).await.text, "sold");
        send(&app, order("k")).await.assert_problem(409, "idempotency_response_not_stored");
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_17_a_panic_in_the_call_of_a_service_is_a_panic_of_the_handler() {
    let (engine, _) = engine();
    let service = tower::service_fn(|_: Request<_>| -> std::future::Ready<Result<_, Infallible>> {
        panic!("the service's own")
    });
    let service = service.map_response(|response: http::Response<String>| response);
    let service = once(&engine).layer(service);
    let response = service.oneshot(order("k")).await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(engine.stats().aborted, 1);
}

#[tokio::test(start_paused = true)]
async fn the_scope_of_a_lock_layer_reaches_into_the_task_of_the_handler() {
    let (engine, _) = engine();
    let locks = engine.locks().clone();
    let around = LockLayer::new(locks.clone()).key(fixed("outside"));
    let handler = async move || match locks.lock("outside").wait(ms(50)).await {
        Ok(_) => "re-entered",
        Err(_) => "waited for itself",
    };
    let app = Router::new().route("/orders", post(handler)).layer(once(&engine)).layer(around);
    assert_eq!(send(&app, order("k")).await.text, "re-entered");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_slow_handler_takes_is_not_bounded_here() {
    let (engine, _) = engine();
    let handler = async || {
        tokio::time::sleep(Duration::from_secs(30)).await;
        "slow"
    };
    let app = Router::new().route("/orders", post(handler)).layer(once(&engine));
    let slow = request("k").body(Body::empty()).unwrap();
    assert_eq!(send(&app, slow).await.text, "slow");
}
