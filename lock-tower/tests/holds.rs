//! How long a request holds its lock: to the head, to the body's end, until it is lost, or past
//! its client.

mod common;

use std::convert::Infallible;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::routing::post;
use bytes::Bytes;
use common::{Probe, buy, ms, send, settle, shop, spawn, within};
use futures_util::{FutureExt, poll, stream};
use http::Request;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use lock_core::LockClient;
use lock_core::error::LostError;
use lock_core::scope::CutWatch;
use lock_tower::answer::Cause;
use lock_tower::key::fixed;
use lock_tower::{FencingToken, HoldUntil, LockGuardExt, LockLayer, OnLost};
use tokio::sync::{Notify, mpsc};
use tower::ServiceExt;

/// A body of the frames that a test sends.
struct Frames(mpsc::UnboundedReceiver<&'static str>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let text = self.0.poll_recv(cx);
        text.map(|text| text.map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}

/// `POST /` answers its head at once, with a body that the sender feeds.
fn streaming(layer: LockLayer) -> (Router, mpsc::UnboundedSender<&'static str>) {
    let (frames, receiver) = mpsc::unbounded_channel();
    let body = Arc::new(std::sync::Mutex::new(Some(Frames(receiver))));
    let handler = async move || AxumBody::new(body.lock().unwrap().take().unwrap());
    (Router::new().route("/", post(handler)).layer(layer.key(fixed("job"))), frames)
}

fn request() -> Request<AxumBody> {
    Request::post("/").body(AxumBody::empty()).unwrap()
}

async fn is_free(locks: &LockClient) -> bool {
    settle().await;
    locks.lock("job").reentrant(false).try_acquire().await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_given_up_with_the_head_by_default() {
    let locks = LockClient::memory();
    let (app, frames) = streaming(LockLayer::new(locks.clone()));
    let response = app.oneshot(request()).await.unwrap();
    assert!(is_free(&locks).await);
    frames.send("one").unwrap();
    drop(frames);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "one");
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_held_to_the_end_of_the_body_on_request() {
    let locks = LockClient::memory();
    let (app, frames) =
        streaming(LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody));
    let mut body = app.oneshot(request()).await.unwrap().into_body();
    assert!(!is_free(&locks).await);
    frames.send("one").unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
    assert!(poll!(pin!(body.frame())).is_pending());
    assert!(!is_free(&locks).await);
    drop(frames);
    assert!(body.frame().await.is_none());
    assert!(is_free(&locks).await);
}

/// What makes the body is called under the lock as the handler was, whoever polls it: its own call for
/// the key re-enters the hold.
#[tokio::test(start_paused = true)]
async fn a_body_that_calls_for_its_own_lock_does_not_wait_for_itself() {
    for detach in [false, true] {
        let locks = LockClient::memory();
        let again = locks.clone();
        let handler = async move |token: FencingToken| {
            let made = async move {
                let guard = again.lock("job").wait(ms(50)).retries(0).await;
                guard.map(|guard| Bytes::from((guard.token() == token.0).to_string()))
            };
            AxumBody::from_stream(stream::once(made))
        };
        let layer = LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody);
        let layer = if detach { layer.detach_on_disconnect() } else { layer };
        let layer = layer.key(fixed("job"));
        let app = Router::new().route("/", post(handler)).layer(layer);
        let body = app.oneshot(request()).await.unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "true", "{detach}");
        assert!(is_free(&locks).await);
    }
}

/// Also one who watches the body: what it was is no outcome.
#[tokio::test(start_paused = true)]
async fn a_body_whose_lock_is_lost_tells_those_who_watch() {
    let locks = LockClient::memory();
    let layer = LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody);
    let (app, _frames) = streaming(layer.hold_limit(ms(100)));
    let mut body = app.oneshot(request()).await.unwrap().into_body();
    let watch = CutWatch::new();
    within(watch.scope(body.frame())).await.unwrap().unwrap_err();
    assert!(watch.has_seen_one());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_says_it_has_ended_gives_the_lock_up_without_a_further_poll() {
    let locks = LockClient::memory();
    let layer = || LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody);
    let empty = Router::new().route("/", post(async || ())).layer(layer().key(fixed("job")));
    let empty = empty.oneshot(request()).await.unwrap();
    assert!(is_free(&locks).await);
    drop(empty);

    let text = Router::new().route("/", post(async || "text")).layer(layer().key(fixed("job")));
    let mut text = text.oneshot(request()).await.unwrap().into_body();
    assert!(!is_free(&locks).await);
    assert_eq!(text.frame().await.unwrap().unwrap().into_data().unwrap(), "text");
    assert!(is_free(&locks).await);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_gives_the_lock_up() {
    let locks = LockClient::memory();
    let (app, _frames) =
        streaming(LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody));
    let response = app.oneshot(request()).await.unwrap();
    assert!(!is_free(&locks).await);
    drop(response);
    assert!(is_free(&locks).await);
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_lock_is_lost_ends_with_an_error() {
    let locks = LockClient::memory();
    let layer = LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody);
    let (app, frames) = streaming(layer.hold_limit(ms(100)));
    let mut body = app.oneshot(request()).await.unwrap().into_body();
    frames.send("one").unwrap();
    assert!(body.frame().await.unwrap().is_ok());
    let error = within(body.frame()).await.unwrap().unwrap_err();
    let lost = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<LostError>());
    assert!(lost.is_some(), "{error:?}");
    assert!(body.frame().await.is_none());
    assert!(is_free(&locks).await);
}

/// Nobody watches a lock whose body never waits. From 50 ms on its client listens all the same.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_waits_is_broken_off_when_its_lock_is_taken_away() {
    let locks = LockClient::memory();
    let handler = async || AxumBody::from_stream(stream::repeat(Ok::<_, Infallible>("one")));
    let layer = LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody);
    let app = Router::new().route("/", post(handler)).layer(layer.key(fixed("job")));
    let mut body = app.oneshot(request()).await.unwrap().into_body();
    for wait in [0, 51] {
        tokio::time::sleep(ms(wait)).await;
        assert!(body.frame().await.unwrap().is_ok());
    }
    assert!(locks.force_release("job").await.unwrap());
    settle().await;
    body.frame().await.unwrap().unwrap_err();
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_wakes_up_past_its_time_does_nothing_more() {
    let (locks, wake) = (LockClient::memory(), Arc::new(Notify::new()));
    let went_on = Arc::new(AtomicBool::new(false));
    let (woken, flag) = (wake.clone(), went_on.clone());
    let handler = async move || {
        woken.notified().await;
        flag.store(true, SeqCst);
    };
    let layer = LockLayer::new(locks.clone()).hold_limit(ms(20)).key(fixed("job"));
    let app = Router::new().route("/", post(handler)).layer(layer);
    let mut call = pin!(app.oneshot(request()));
    while locks.stats().held == 0 {
        assert!(poll!(call.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(poll!(call.as_mut()).is_pending());
    wake.notify_one();
    // The fault itself: time goes on, and no task is run.
    assert!(poll!(pin!(tokio::time::advance(ms(40)))).is_pending());
    assert_eq!(call.await.unwrap().status(), 503);
    assert!(!went_on.load(SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_lock_is_lost_is_dropped_and_answered_with_503() {
    let (locks, probe) = (LockClient::memory(), Probe::new());
    let app = shop(LockLayer::new(locks.clone()).hold_limit(ms(100)), &probe);
    for detach in [false, true] {
        let layer = LockLayer::new(locks.clone()).hold_limit(ms(100));
        let layer = if detach { layer.detach_on_disconnect() } else { layer };
        let app = shop(layer, &probe);
        let answer = send(&app, buy("42")).await;
        answer.assert_problem(503, "lock_lost");
        assert_eq!(answer.retry_after(), None, "what the handler did is not known");
        assert_eq!((probe.inside(), probe.finished()), (0, 0));
    }
    probe.let_through(1);
    assert_eq!(send(&app, buy("42")).await.text, "done", "the lock is free again");
}

/// Nobody has watched the lock when that happens, as the handler had not waited for anything.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_in_the_first_step_of_its_handler_stops_it() {
    let locks = LockClient::memory();
    let operator = locks.clone();
    let handler = async move |LockGuardExt(lock): LockGuardExt| {
        let taken = operator.force_release(lock.key().as_str()).now_or_never();
        assert!(taken.expect("memory answers at once").unwrap());
        pending::<()>().await;
    };
    let layer = LockLayer::new(locks).key(fixed("job"));
    let app = Router::new().route("/", post(handler)).layer(layer);
    let answer = send(&app, request()).now_or_never().expect("told at once");
    answer.assert_problem(503, "lock_lost");
}

#[tokio::test(start_paused = true)]
async fn the_handler_is_gone_before_its_lock_is_given_up() {
    struct Last(LockGuardExt, Arc<AtomicBool>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.1.store(self.0.0.is_held(), SeqCst);
        }
    }
    let held_at_drop = Arc::new(AtomicBool::new(false));
    let seen = held_at_drop.clone();
    let handler = async move |lock: LockGuardExt| {
        let _last = Last(lock, seen);
        pending::<()>().await;
    };
    let layer = LockLayer::new(LockClient::memory()).key(fixed("job"));
    let app = Router::new().route("/", post(handler)).layer(layer);
    let running = spawn(&app, request());
    settle().await;
    running.abort();
    settle().await;
    assert!(held_at_drop.load(SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_is_only_reported_lets_the_handler_finish() {
    let handler = async |LockGuardExt(lock): LockGuardExt| {
        let lost = lock.lost().await;
        format!("{:?}", lost.reason())
    };
    let layer = LockLayer::new(LockClient::memory()).hold_limit(ms(100)).on_lost(OnLost::Report);
    let app = Router::new().route("/", post(handler)).layer(layer.key(fixed("job")));
    assert_eq!(send(&app, request()).await.text, "HoldLimit");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_to_on_busy_without_the_request() {
    let probe = Probe::new();
    let layer = LockLayer::new(LockClient::memory()).hold_limit(ms(100)).on_busy(|refusal| {
        assert_eq!(refusal.cause(), Cause::Lost);
        assert!(refusal.request().is_none() && refusal.key().is_some());
        refusal.default_response()
    });
    send(&shop(layer, &probe), buy("42")).await.assert_problem(503, "lock_lost");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_drops_the_handler_and_frees_the_lock() {
    let (locks, probe) = (LockClient::memory(), Probe::new());
    let app = shop(LockLayer::new(locks.clone()), &probe);
    let gone = spawn(&app, buy("42"));
    let next = spawn(&app, buy("42"));
    settle().await;
    assert_eq!((probe.entered(), probe.inside()), (1, 1));
    gone.abort();
    settle().await;
    assert_eq!((probe.entered(), probe.inside(), probe.finished()), (2, 1, 0));
    probe.let_through(1);
    assert_eq!(next.await.unwrap().text, "done");
    settle().await;
    assert_eq!((locks.stats().held, locks.stats().keys), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_detached_handler_finishes_under_its_lock_when_its_client_goes_away() {
    let (locks, probe) = (LockClient::memory(), Probe::new());
    let app = shop(LockLayer::new(locks.clone()).detach_on_disconnect(), &probe);
    let gone = spawn(&app, buy("42"));
    settle().await;
    let waiting_gone = spawn(&app, buy("42"));
    settle().await;
    let next = spawn(&app, buy("42"));
    settle().await;
    gone.abort();
    waiting_gone.abort();
    settle().await;
    assert_eq!((probe.entered(), probe.inside()), (1, 1), "the handler runs on, alone");
    probe.let_through(1);
    settle().await;
    assert_eq!((probe.finished(), probe.entered()), (1, 2), "and only who had begun does");
    probe.let_through(1);
    assert_eq!(next.await.unwrap().text, "done");
    settle().await;
    assert_eq!((probe.entered(), locks.stats().held), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_detached_handler_takes_its_usual_way_and_frees_the_lock() {
    let locks = LockClient::memory();
    let layer = LockLayer::new(locks.clone()).detach_on_disconnect().key(fixed("job"));
    let handler = async || -> &'static str { panic!("the handler's own") };
    let app = Router::new().route("/", post(handler)).layer(layer);
    let outcome = std::panic::AssertUnwindSafe(app.oneshot(request())).catch_unwind().await;
    let payload = outcome.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the handler's own"));
    assert!(is_free(&locks).await);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_past_its_deadline_stops_the_handler() {
    let (locks, probe) = (LockClient::memory(), Probe::new());
    let app = shop(LockLayer::new(locks.clone()), &probe);
    let running = spawn(&app, buy("42"));
    settle().await;
    let _ = locks.shutdown(Duration::from_millis(50)).await;
    running.await.unwrap().assert_problem(503, "lock_lost");
    assert_eq!(probe.inside(), 0);
}
