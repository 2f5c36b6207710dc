//! Rule 6: responses of which nobody has said how long they are. Their callers have each piece as
//! it comes, and the end once it is on record.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures_util::{StreamExt, poll, stream};
use http_body_util::BodyExt;
use lock_core::LockOptions;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Duplicates, OnUnknown};
use lock_tower::OnLost;
use lock_tower::idempotency::OnDisconnect;
use tower::ServiceExt;

use crate::common::{ms, now, send, settle, spawn, within};
use crate::fixture::{
    Runs, assert_never_runs_again, engine, once, order, streaming, two_processes,
};

/// The response, up to its head.
async fn head(app: &Router) -> Response {
    within(app.clone().oneshot(order("k"))).await.unwrap()
}

async fn piece(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    within(body.frame()).await.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
}

fn text(text: &'static str) -> Result<Bytes, io::Error> {
    Ok(Bytes::from_static(text.as_bytes()))
}

#[tokio::test(start_paused = true)]
async fn rule_6_the_head_of_a_declared_stream_is_there_at_once_and_it_never_runs_again() {
    for content_type in [
        "Text/Event-Stream; charset=utf-8",
        "application/x-ndjson",
        "multipart/x-mixed-replace;boundary=x",
    ] {
        let (engine, _) = engine();
        let (app, frames) = streaming(once(&engine), move |body| {
            Response::builder().header("content-type", content_type).body(body).unwrap()
        });
        let begun = now();
        let mut body = head(&app).await.into_body();
        frames.send(text("1\n")).unwrap();
        assert_eq!(piece(&mut body).await.unwrap().unwrap(), "1\n");
        assert_eq!(begun.elapsed(), Duration::ZERO, "{content_type}");
        // While the stream is still open.
        assert_never_runs_again(&app).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_body_without_an_end_that_nobody_declared_is_passed_on_as_it_comes() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let begun = now();
    let mut body = head(&app).await.into_body();
    for number in ["one, ", "two, ", "three"] {
        frames.send(text(number)).unwrap();
        assert_eq!(piece(&mut body).await.unwrap().unwrap(), number);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(engine.locks().stats().held, 1, "it may still be stored");
    // After 10 s it is taken for a stream, and goes on.
    tokio::time::sleep(Duration::from_millis(10_100)).await;
    assert_eq!(engine.locks().stats().held, 0);
    assert_never_runs_again(&app).await;
    frames.send(text(", four")).unwrap();
    drop(frames);
    assert_eq!(body.collect().await.unwrap().to_bytes(), ", four");
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_chunked_body_that_ends_is_replayed_and_its_duplicates_wait_for_it() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let first = spawn(&app, order("k"));
    settle().await;
    frames.send(text("one, ")).unwrap();
    let waiting = spawn(&app, order("k"));
    settle().await;
    frames.send(text("two")).unwrap();
    drop(frames);
    assert_eq!(first.await.unwrap().text, "one, two");
    for again in [waiting.await.unwrap(), send(&app, order("k")).await] {
        assert_eq!(again.text, "one, two");
        assert_eq!(again.headers["idempotent-replayed"], "true");
    }
    assert_eq!((engine.stats().executed, engine.stats().completed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_was_there_before_the_head_goes_to_the_caller_as_well_as_on_record() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    frames.send(text("one, ")).unwrap();
    frames.send(text("two, ")).unwrap();
    let body = head(&app).await.into_body();
    frames.send(text("three")).unwrap();
    drop(frames);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "one, two, three");
    assert_eq!(send(&app, order("k")).await.text, "one, two, three");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_body_is_held_back_until_its_record_is_written() {
    let (engine, records) = engine();
    records.slow_ends(ms(500));
    let (app, frames) = streaming(once(&engine), Response::new);
    let mut body = head(&app).await.into_body();
    frames.send(text("all")).unwrap();
    drop(frames);
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "all");
    let begun = now();
    assert!(piece(&mut body).await.is_none());
    assert!(begun.elapsed() >= ms(500), "{:?}", begun.elapsed());
    let rejecting = once(&engine).duplicates(Duplicates::Reject);
    let again = Runs::default().shop(rejecting, |_| "again");
    assert_eq!(send(&again, order("k")).await.text, "all");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_body_comes_after_two_seconds_where_the_store_is_down() {
    let (engine, records) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let body = head(&app).await.into_body();
    records.fail(FaultKind::Transient);
    frames.send(text("all")).unwrap();
    drop(frames);
    let begun = now();
    assert_eq!(within(body.collect()).await.unwrap().to_bytes(), "all");
    assert!((ms(1_900)..=ms(2_600)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    records.heal();
    assert_eq!(send(&app, order("k")).await.headers["idempotent-replayed"], "true");
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_chunked_body_over_its_bound_goes_on_to_its_caller_and_never_runs_again() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine).response_bytes_max(5), Response::new);
    let body = head(&app).await.into_body();
    for number in ["one, ", "two, ", "three"] {
        frames.send(text(number)).unwrap();
        settle().await;
    }
    assert_eq!(engine.locks().stats().held, 0);
    assert_never_runs_again(&app).await;
    drop(frames);
    assert_eq!(within(body.collect()).await.unwrap().to_bytes(), "one, two, three");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_holds_up_neither_the_record_nor_the_lock() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let body = head(&app).await.into_body();
    for number in ["one, ", "two, ", "three"] {
        frames.send(text(number)).unwrap();
        settle().await;
    }
    drop(frames);
    assert_eq!(send(&app, order("k")).await.text, "one, two, three");
    assert_eq!(engine.locks().stats().held, 0);
    assert_eq!(within(body.collect()).await.unwrap().to_bytes(), "one, two, three");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_on_its_way_is_broken_for_its_caller_and_never_runs_again() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let mut body = head(&app).await.into_body();
    frames.send(text("half")).unwrap();
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "half");
    frames.send(Err(io::Error::other("a disk"))).unwrap();
    assert!(piece(&mut body).await.unwrap().unwrap_err().to_string().contains("a disk"));
    assert!(piece(&mut body).await.is_none());
    assert_never_runs_again(&app).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_panics_on_its_way_is_broken_and_never_runs_again() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |_| {
        Body::from_stream(
            stream::iter(0..2)
                .then(async |frame| {
                    tokio::task::yield_now().await;
                    assert_eq!(frame, 0, "the body's own");
                    text("half")
                })
                .boxed(),
        )
    });
    let mut body = head(&app).await.into_body();
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "half");
    assert!(piece(&mut body).await.unwrap().is_err());
    assert_never_runs_again(&app).await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_handler_lost_its_lock_ends_with_an_error_and_its_outcome_is_unknown() {
    for (on_unknown, code) in
        [(OnUnknown::Refuse, "idempotency_outcome_unknown"), (OnUnknown::Reexecute, "")]
    {
        let (engine, _) = engine();
        let hold = LockOptions::new().with_hold_limit(ms(100));
        let engine = engine.with_lock_options(hold).with_on_unknown(on_unknown);
        let (app, frames) = streaming(once(&engine), Response::new);
        let mut body = head(&app).await.into_body();
        frames.send(text("half")).unwrap();
        assert_eq!(piece(&mut body).await.unwrap().unwrap(), "half");
        let error = piece(&mut body).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("lost"), "{error}");
        assert!(frames.is_closed(), "the body of the handler is gone");
        settle().await;
        let retry = Runs::default().shop(once(&engine), |_| "again");
        assert_eq!(send(&retry, order("k")).await.code(), code);
        assert_eq!(engine.stats().unknown, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_later_request_has_overtaken_does_not_pass_for_the_whole() {
    let (one, other) = two_processes();
    let one = one.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let (app, frames) = streaming(once(&one).on_lost(OnLost::Report), Response::new);
    let mut body = head(&app).await.into_body();
    tokio::time::sleep(ms(200)).await;
    let later = Runs::default().shop(once(&other), |_| "later");
    assert_eq!(send(&later, order("k")).await.text, "later");
    frames.send(text("all")).unwrap();
    drop(frames);
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "all");
    let error = piece(&mut body).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("taken over"), "{error}");
    assert_eq!(send(&app, order("k")).await.text, "later");
}

#[tokio::test(start_paused = true)]
async fn rule_13_a_body_whose_client_goes_away_is_read_on_and_stored() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let mut body = head(&app).await.into_body();
    frames.send(text("one, ")).unwrap();
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), "one, ");
    drop(body);
    settle().await;
    frames.send(text("two")).unwrap();
    drop(frames);
    assert_eq!(send(&app, order("k")).await.text, "one, two");
}

#[tokio::test(start_paused = true)]
async fn rule_13_a_body_is_dropped_with_its_client_where_that_was_chosen() {
    for (on_unknown, left) in [(OnUnknown::Reexecute, 0), (OnUnknown::Refuse, 1)] {
        let (engine, records) = engine();
        let layer = once(&engine).on_disconnect(OnDisconnect::Abort).on_unknown(on_unknown);
        let (app, frames) = streaming(layer, Response::new);
        let mut body = head(&app).await.into_body();
        frames.send(text("one, ")).unwrap();
        assert_eq!(piece(&mut body).await.unwrap().unwrap(), "one, ");
        drop(body);
        settle().await;
        assert!(frames.is_closed(), "the body of the handler is gone");
        assert_eq!((records.len(), engine.locks().stats().held), (left, 0));
    }
}

/// A handler and its body of three pieces, between awaits. Says whether the last was reached.
fn pieces(engine: &lock_core::idempotency::Idempotency, action: OnDisconnect) -> (Router, Runs) {
    let (runs, counting) = (Runs::default(), Runs::default());
    let (begun, placed) = (runs.clone(), counting.clone());
    let handler = async move || {
        begun.next();
        let placed = placed.clone();
        let pieces = stream::iter(["one, ", "two, ", "three"]).then(move |piece| {
            let placed = placed.clone();
            async move {
                tokio::task::yield_now().await;
                if piece == "three" {
                    placed.next();
                }
                text(piece)
            }
        });
        Body::from_stream(pieces.boxed())
    };
    let layer = once(engine).on_disconnect(action);
    (Router::new().route("/orders", post(handler)).layer(layer), runs)
}

/// Reads the response by so many polls, and drops it; true if it was at its end before.
async fn dropped_after(polls: usize, app: &Router) -> bool {
    let whole = async { head(app).await.into_body().collect().await.unwrap().to_bytes() };
    let mut whole = Box::pin(whole);
    for _ in 0..polls {
        if poll!(&mut whole).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn rule_13_wherever_a_client_goes_away_nothing_is_left_and_a_retry_has_all_of_it() {
    for action in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let (mut polls, mut ready) = (0, false);
        while !ready {
            let (engine, records) = engine();
            let (app, runs) = pieces(&engine, action);
            ready = dropped_after(polls, &app).await;
            settle().await;
            let again = send(&app, order("k")).await;
            assert_eq!(again.text, "one, two, three", "{action:?} after {polls} polls");
            settle().await;
            let most = if action == OnDisconnect::Finish { 1 } else { 2 };
            assert!((1..=most).contains(&runs.count()), "{action:?} after {polls} polls");
            let left = (engine.stats().busy, engine.locks().stats().held, records.len());
            assert_eq!(left, (0, 0, 1), "{action:?} after {polls} polls");
            polls += 1;
        }
        assert!(polls > 4, "only {polls} polls to the end: {action:?}");
    }
}

#[test]
fn a_runtime_that_ends_breaks_the_body_and_does_not_end_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (theirs, ours) = (runtime(), runtime());
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    let body = theirs.block_on(async {
        let mut body = head(&app).await.into_body();
        frames.send(text("half")).unwrap();
        assert_eq!(piece(&mut body).await.unwrap().unwrap(), "half");
        body
    });
    drop(theirs);
    let error = ours.block_on(body.collect()).unwrap_err().to_string();
    assert!(error.contains("shut down"), "{error}");
}
