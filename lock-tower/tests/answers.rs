//! Every answer of the layer: its status, its headers and its code.

mod common;

use axum::response::IntoResponse;
use common::broken::{Broken, out_of_reach, password_refused, unreplicated};
use common::{Answer, Probe, buy, ms, now, send, settle, shop, spawn};
use http::StatusCode;
use lock_core::{Key, LockClient};
use lock_tower::LockLayer;
use lock_tower::answer::Cause;
use std::time::Duration;

#[track_caller]
fn assert_come_back(answer: &Answer, seconds: std::ops::RangeInclusive<u64>) {
    let after = answer.retry_after().expect("a Retry-After");
    assert!(seconds.contains(&after), "Retry-After: {after}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_answered_with_409_when_the_budget_is_used_up() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    let app = shop(LockLayer::new(locks), &Probe::open());
    let begun = now();
    let answer = send(&app, buy("42")).await;
    answer.assert_problem(409, "lock_timeout");
    assert_come_back(&answer, 1..=2);
    // Two tries of 2 s, in one place, which is what the defaults say.
    assert_eq!(begun.elapsed(), ms(4_000));
    assert!(!answer.text.contains("42"), "the key is not repeated: {}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn without_admission_each_try_stands_in_line_anew() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    let app = shop(LockLayer::new(locks).admission(false), &Probe::open());
    let begun = now();
    send(&app, buy("42")).await.assert_problem(409, "lock_timeout");
    // Two tries and one pause, in the time of two tries.
    assert_eq!(begun.elapsed(), ms(4_000));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_slow_is_answered_with_429_at_once_and_says_when_to_come_back() {
    let locks = LockClient::memory();
    let handler = || async {
        tokio::time::sleep(ms(100)).await;
        "done"
    };
    let layer = LockLayer::new(locks.clone()).key(lock_tower::key::path("buy:{sku}"));
    let app = axum::Router::new().route("/buy/{sku}", axum::routing::post(handler));
    let app = app.route_layer(layer);
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(spawn(&app, buy("42")));
        tokio::time::sleep(ms(25)).await;
    }
    // The line is as long as 4 s of it.
    let begun = now();
    let answer = send(&app, buy("42")).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    answer.assert_problem(429, "lock_overloaded");
    assert_come_back(&answer, 4..=5);
    assert!(!answer.text.contains("buy"), "the key is not repeated: {}", answer.text);
    let (mut done, mut refused, mut late) = (0, 0, 0);
    for answer in answers {
        match answer.await.unwrap() {
            answer if answer.status == 200 => done += 1,
            // Let in while little was known, at the very end of the line.
            answer if answer.status == 409 => late += 1,
            answer => {
                answer.assert_problem(429, "lock_overloaded");
                refused += 1;
            }
        }
    }
    // 50 in 5 s of arrivals, and what was in line then.
    assert!((80..=90).contains(&done), "{done} done, {refused} refused");
    assert!(late <= 5, "{late} waited in vain");
    assert_eq!(locks.stats().timeouts, late);
}

#[tokio::test(start_paused = true)]
async fn each_cause_can_be_given_another_status_and_the_others_keep_theirs() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    let layer = LockLayer::new(locks.clone()).wait(Duration::ZERO).retries(0);
    let layer = layer.status(Cause::Timeout, StatusCode::LOCKED);
    let layer = layer.status(Cause::Timeout, StatusCode::SERVICE_UNAVAILABLE);
    let layer = layer.status(Cause::Key, StatusCode::UNPROCESSABLE_ENTITY).on_busy(|refusal| {
        let busy = refusal.cause() == Cause::Timeout;
        assert!(!busy || refusal.status() == StatusCode::SERVICE_UNAVAILABLE);
        refusal.default_response()
    });
    let app = shop(layer.status(Cause::Closed, StatusCode::BAD_GATEWAY), &Probe::open());
    let begun = now();
    send(&app, buy("42")).await.assert_problem(503, "lock_timeout");
    assert!(begun.elapsed() <= ms(1), "without a wait there is none");
    send(&app, buy(&"4".repeat(600))).await.assert_problem(422, "lock_key_rejected");
    let _ = locks.shutdown(Duration::ZERO).await;
    send(&app, buy("42")).await.assert_problem(502, "lock_closed");
}

#[test]
#[should_panic(expected = "the status of Timeout is 200 OK, it must be from 400 to 599")]
fn a_status_that_is_no_error_is_refused_at_once() {
    let _ = LockLayer::new(LockClient::memory()).status(Cause::Timeout, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_full_line_of_the_client_is_answered_with_429() {
    let locks = LockClient::builder("memory:").waiters_per_key_max(1).connect().await.unwrap();
    let held = locks.lock("buy:42").await.unwrap();
    let app = shop(LockLayer::new(locks), &Probe::open());
    let waiting = spawn(&app, buy("42"));
    settle().await;
    let answer = send(&app, buy("42")).await;
    answer.assert_problem(429, "lock_overloaded");
    assert_come_back(&answer, 1..=2);
    drop(held);
    assert_eq!(waiting.await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn a_store_out_of_reach_is_answered_with_503() {
    let locks = LockClient::with_backend(Broken(out_of_reach));
    let probe = Probe::open();
    let answer = send(&shop(LockLayer::new(locks), &probe), buy("42")).await;
    answer.assert_problem(503, "lock_unavailable");
    assert_come_back(&answer, 1..=2);
    assert_eq!(probe.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_will_not_come_back_by_itself_is_answered_without_a_time_to_come_back() {
    let locks = LockClient::with_backend(Broken(password_refused));
    let answer = send(&shop(LockLayer::new(locks), &Probe::open()), buy("42")).await;
    answer.assert_problem(503, "lock_unavailable");
    assert_eq!(answer.retry_after(), None);
    assert!(!answer.text.contains("secret"), "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_not_replicated_is_tried_again_and_answered_with_503() {
    let (locks, probe) = (LockClient::with_backend(Broken(unreplicated)), Probe::open());
    for retries in [0, 2] {
        let layer = LockLayer::new(locks.clone()).replicas(1, ms(50)).retries(retries);
        let layer = layer.on_busy(move |refusal| {
            assert_eq!((refusal.cause(), refusal.tries()), (Cause::Unavailable, retries + 1));
            refusal.default_response()
        });
        let answer = send(&shop(layer, &probe), buy("42")).await;
        answer.assert_problem(503, "lock_not_replicated");
        assert_come_back(&answer, 1..=2);
    }
    assert_eq!(probe.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_is_answered_with_503() {
    let locks = LockClient::memory();
    let _ = locks.shutdown(Duration::ZERO).await;
    let answer = send(&shop(LockLayer::new(locks), &Probe::open()), buy("42")).await;
    answer.assert_problem(503, "lock_closed");
    assert_come_back(&answer, 1..=2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_too_long_is_answered_with_400() {
    let app = shop(LockLayer::new(LockClient::memory()), &Probe::open());
    let answer = send(&app, buy(&"4".repeat(600))).await;
    answer.assert_problem(400, "lock_key_rejected");
    assert_eq!(answer.retry_after(), None);
}

#[tokio::test(start_paused = true)]
async fn an_option_out_of_its_bounds_is_answered_with_500() {
    let layer = || LockLayer::new(LockClient::memory());
    let day = Duration::from_secs(100_000);
    for layer in [
        layer().lease(Duration::ZERO),
        layer().wait(day),
        layer().linger(day),
        layer().hold_limit(Duration::ZERO),
        layer().retries(1_001),
    ] {
        let answer = send(&shop(layer, &Probe::open()), buy("42")).await;
        answer.assert_problem(500, "lock_misconfigured");
        assert_eq!(answer.retry_after(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn on_busy_is_given_all_facts_and_its_answer_is_sent() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    let layer = LockLayer::new(locks).wait(ms(100)).on_busy(|refusal| {
        assert_eq!(refusal.cause(), Cause::Timeout);
        assert_eq!(refusal.status(), StatusCode::CONFLICT);
        assert_eq!(refusal.code(), "lock_timeout");
        assert_eq!(refusal.key().map(Key::as_str), Some("buy:42"));
        assert_eq!(refusal.tries(), 1);
        assert_eq!(refusal.waited(), ms(200));
        assert_eq!(refusal.request().unwrap().uri.path(), "/buy/42");
        assert!(refusal.error().unwrap().to_string().contains("buy:42"));
        assert_eq!(refusal.estimated_wait(), None);
        assert!(refusal.retry_after().is_some());
        let shown = format!("{refusal:?}");
        assert!(!shown.contains("42") && shown.contains("lock_timeout"), "{shown}");
        let mut response = refusal.default_response().into_response();
        *response.status_mut() = StatusCode::LOCKED;
        response
    });
    let answer = send(&shop(layer, &Probe::open()), buy("42")).await;
    assert_eq!(answer.status, StatusCode::LOCKED);
    assert_eq!(answer.code(), "lock_timeout");
}
