//! Caps on waiters, the retry budget, and the readiness of the inner service.

mod common;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use common::{Probe, buy, ms, now, send, settle, shop, spawn};
use futures_util::future::select_all;
use futures_util::poll;
use http::{Request, Response};
use http_body_util::Full;
use lock_core::{Key, LockClient};
use lock_tower::LockLayer;
use lock_tower::answer::Cause;
use lock_tower::key::fixed;
use tower::limit::ConcurrencyLimitLayer;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

#[tokio::test(start_paused = true)]
async fn one_waiter_too_many_on_a_key_is_answered_with_429_at_once() {
    let probe = Probe::new();
    let app = shop(LockLayer::new(LockClient::memory()).waiters_per_key(2), &probe);
    let mut served = vec![spawn(&app, buy("42"))];
    settle().await;
    served.extend([spawn(&app, buy("42")), spawn(&app, buy("42"))]);
    settle().await;

    let begun = now();
    let answer = send(&app, buy("42")).await;
    answer.assert_problem(429, "lock_waiters_per_key");
    assert!((1..=2).contains(&answer.retry_after().unwrap()));
    assert_eq!(begun.elapsed(), Duration::ZERO);

    let other = spawn(&app, buy("43"));
    settle().await;
    assert_eq!(probe.inside(), 2, "another key has a cap of its own");
    probe.let_through(4);
    for one in served.into_iter().chain([other]) {
        assert_eq!(one.await.unwrap().text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn one_waiter_too_many_in_total_is_answered_with_429_at_once() {
    let probe = Probe::new();
    let layer = LockLayer::new(LockClient::memory()).waiters(2);
    // Clones count together.
    let (app, twin) = (shop(layer.clone(), &probe), shop(layer, &probe));
    let mut served = vec![spawn(&app, buy("42"))];
    settle().await;
    served.extend([spawn(&app, buy("42")), spawn(&twin, buy("42"))]);
    settle().await;
    send(&twin, buy("43")).await.assert_problem(429, "lock_waiters");
    probe.let_through(3);
    for one in served {
        assert_eq!(one.await.unwrap().text, "done");
    }
    probe.let_through(1);
    assert_eq!(send(&app, buy("43")).await.text, "done", "the places are free again");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_may_wait_for_a_key_and_ten_thousand_in_all_unless_told_otherwise() {
    let probe = Probe::new();
    let locks = LockClient::memory();
    let app = shop(LockLayer::new(locks.clone()), &probe);
    let mut requests = Vec::new();
    for key in 0..10_usize {
        requests.push(spawn(&app, buy(&key.to_string())));
        settle().await;
        requests.extend((0..1_000).map(|_| spawn(&app, buy(&key.to_string()))));
        settle().await;
        assert_eq!(locks.stats().waiters, (key + 1) * 1_000);
        let code = if key < 9 { "lock_waiters_per_key" } else { "lock_waiters" };
        let next = if key < 9 { key.to_string() } else { "other".to_owned() };
        send(&app, buy(&next)).await.assert_problem(429, code);
    }
    requests.iter().for_each(|request| request.abort());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_while_it_waits_frees_its_place() {
    let probe = Probe::new();
    let locks = LockClient::memory();
    let app = shop(LockLayer::new(locks.clone()).waiters_per_key(1), &probe);
    let first = spawn(&app, buy("42"));
    settle().await;
    let mut second = Box::pin(app.clone().oneshot(buy("42")));
    assert!(poll!(&mut second).is_pending());
    send(&app, buy("42")).await.assert_problem(429, "lock_waiters_per_key");
    drop(second);
    let third = spawn(&app, buy("42"));
    settle().await;
    assert_eq!(locks.stats().waiters, 1);
    probe.let_through(2);
    assert_eq!(first.await.unwrap().text, "done");
    assert_eq!(third.await.unwrap().text, "done");
    assert_eq!(probe.entered(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_layer_has_a_cap_of_its_own_on_the_line_of_a_key_and_the_client_has_another() {
    let locks = LockClient::builder("memory:").waiters_per_key_max(4).connect().await.unwrap();
    let held = locks.lock("buy:42").await.unwrap();
    let layer = |most| LockLayer::new(locks.clone()).waiters_per_key(most);
    let (narrow, wide) = (shop(layer(2), &Probe::open()), shop(layer(5), &Probe::open()));
    let mut waiting = vec![spawn(&narrow, buy("42")), spawn(&narrow, buy("42"))];
    settle().await;
    send(&narrow, buy("42")).await.assert_problem(429, "lock_waiters_per_key");
    waiting.extend([spawn(&wide, buy("42")), spawn(&wide, buy("42"))]);
    settle().await;
    assert_eq!(locks.stats().waiters, 4);
    send(&wide, buy("42")).await.assert_problem(429, "lock_overloaded");
    send(&narrow, buy("42")).await.assert_problem(429, "lock_waiters_per_key");
    drop(held);
    for one in waiting {
        assert_eq!(one.await.unwrap().text, "done");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_rush_from_many_threads_as_many_wait_as_may_and_those_who_go_make_room() {
    let locks = LockClient::memory();
    let held = locks.lock("buy:42").await.unwrap();
    let layer = LockLayer::new(locks.clone()).waiters_per_key(7).wait(Duration::from_secs(60));
    let app = shop(layer.admission(false), &Probe::open());
    let mut served = Vec::new();
    for round in 0..10 {
        let mut rush: Vec<_> = (0..40).map(|_| spawn(&app, buy("42"))).collect();
        // Those that wait do not end.
        let at_once = if round == 0 { 33 } else { 36 };
        for _ in 0..at_once {
            let (answer, _, left) = select_all(rush).await;
            answer.unwrap().assert_problem(429, "lock_waiters_per_key");
            rush = left;
        }
        assert_eq!(locks.stats().waiters, 7);
        served.extend(rush);
        for gone in served.drain(..4) {
            gone.abort();
            assert!(gone.await.unwrap_err().is_cancelled());
        }
        assert_eq!(locks.stats().waiters, 3);
    }
    drop(held);
    for one in served {
        assert_eq!(one.await.unwrap().text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_has_made_no_try_and_pays_nothing_into_the_budget_of_retries() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    // Nothing but what requests pay in: one retry for each.
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(1), 0, 1.0));
    let layer = LockLayer::new(locks).waiters_per_key(1).retry_budget(budget.clone());
    let layer = layer.on_busy(|refusal| {
        assert_eq!((refusal.cause(), refusal.tries()), (Cause::WaitersPerKey, 0));
        assert_eq!((refusal.waited(), refusal.estimated_wait()), (Duration::ZERO, None));
        assert_eq!(refusal.key().map(Key::as_str), Some("buy:42"));
        refusal.default_response()
    });
    let app = shop(layer, &Probe::open());
    let waiting = spawn(&app, buy("42"));
    settle().await;
    assert!(budget.withdraw() && !budget.withdraw(), "one was let in");
    for _ in 0..10 {
        send(&app, buy("42")).await.assert_problem(429, "lock_waiters_per_key");
    }
    assert!(!budget.withdraw());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn retries_end_when_their_budget_is_used_up() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    // 1 per second over 1 s, and nothing for requests: one retry in all.
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(1), 1, 0.0));
    let layer = LockLayer::new(locks).wait(ms(10)).retries(1).retry_budget(budget);
    let app = shop(layer.admission(false), &Probe::open());
    let mut took = Vec::new();
    for _ in 0..3 {
        let begun = now();
        send(&app, buy("42")).await.assert_problem(409, "lock_timeout");
        took.push(begun.elapsed());
    }
    assert!(took[0] >= ms(20), "two tries and a pause: {took:?}");
    assert!(took[1] < ms(15) && took[2] < ms(15), "one try each: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_takes_the_lock_when_it_was_given_up_in_the_pause() {
    let locks = LockClient::memory();
    let held = locks.lock("buy:42").await.unwrap();
    let layer = LockLayer::new(locks).wait(ms(10)).admission(false);
    let app = shop(layer, &Probe::open());
    let request = spawn(&app, buy("42"));
    tokio::time::sleep(ms(20)).await;
    drop(held);
    assert_eq!(request.await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn readiness_is_that_of_the_inner_service_and_goes_with_the_request() {
    let probe = Probe::new();
    let visit = probe.clone();
    let locks = LockClient::memory();
    let inner = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).service(service_fn(
        move |_: Request<Full<bytes::Bytes>>| {
            let visit = visit.clone().visit();
            async move {
                let text = visit.await;
                Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::from(text)))
            }
        },
    ));
    let mut service = LockLayer::new(locks).key(fixed("job")).layer(inner);
    let request = || Request::new(Full::default());

    service.ready().await.unwrap();
    let first = tokio::spawn(service.call(request()));
    settle().await;
    assert_eq!(probe.inside(), 1);

    // The limit is used up, so the layer is not ready, and asks for nothing by itself.
    assert!(poll!(service.ready()).is_pending());
    probe.let_through(1);
    assert!(first.await.unwrap().is_ok());

    let ready = service.ready().await.unwrap();
    // A call without `poll_ready` would panic in the limit: the ready service went with it.
    let second = ready.call(request());
    // A request that was never run gives its readiness back.
    drop(second);
    let third = service.ready().await.unwrap().call(request());
    probe.let_through(1);
    assert!(third.await.is_ok());
    assert!(matches!(poll!(service.ready()), Poll::Ready(Ok(_))));
}
