//! Requests of one key run one at a time; everybody else runs on.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::{get, post};
use common::{Probe, buy, send, settle, shop, spawn};
use http::{Method, Request, StatusCode};
use lock_core::LockClient;
use lock_core::memory::Memory;
use lock_core::test_util::Scripted;
use lock_tower::key::{Combine, fixed, key_fn, path};
use lock_tower::{FencingToken, LockGuardExt, LockLayer};

#[tokio::test(start_paused = true)]
async fn requests_of_one_key_run_one_at_a_time_in_their_order() {
    let probe = Probe::new();
    let app = shop(LockLayer::new(LockClient::memory()), &probe);
    let all: Vec<_> = (0..5).map(|_| spawn(&app, buy("42"))).collect();
    for done in 0..5 {
        settle().await;
        assert_eq!((probe.entered(), probe.inside()), (done + 1, 1));
        probe.let_through(1);
    }
    for one in all {
        assert_eq!(one.await.unwrap().text, "done");
    }
    assert_eq!(probe.inside_max(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_of_other_keys_run_side_by_side() {
    let probe = Probe::new();
    let app = shop(LockLayer::new(LockClient::memory()), &probe);
    let all: Vec<_> = (0..5).map(|sku| spawn(&app, buy(&sku.to_string()))).collect();
    settle().await;
    assert_eq!(probe.inside(), 5);
    probe.let_through(5);
    for one in all {
        assert_eq!(one.await.unwrap().status, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn two_services_that_share_a_store_exclude_each_other() {
    let probe = Probe::new();
    let name = "memory:two_services_that_share_a_store";
    let one = shop(LockLayer::new(LockClient::connect(name).await.unwrap()), &probe);
    let two = shop(LockLayer::new(LockClient::connect(name).await.unwrap()), &probe);
    let first = spawn(&one, buy("42"));
    let second = spawn(&two, buy("42"));
    settle().await;
    assert_eq!((probe.entered(), probe.inside()), (1, 1));
    probe.let_through(2);
    assert_eq!(first.await.unwrap().text, "done");
    assert_eq!(second.await.unwrap().text, "done");
    assert_eq!(probe.inside_max(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_skipped_request_runs_without_a_lock() {
    let locks = LockClient::memory();
    let (guard, probe) = (locks.lock("buy:42").await.unwrap(), Probe::open());
    let visit = probe.clone();
    let app = Router::new().route("/buy/{sku}", get(move || visit.clone().visit())).route_layer(
        LockLayer::new(locks).key(path("buy:{sku}").when(|head| head.method != Method::GET)),
    );
    let look = Request::get("/buy/42").body(Body::empty()).unwrap();
    assert_eq!(send(&app, look).await.text, "done");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_request_never_reaches_the_handler() {
    let probe = Probe::open();
    let visit = probe.clone();
    let app = Router::new()
        .route("/", post(move || visit.clone().visit()))
        .layer(LockLayer::new(LockClient::memory()).key(key_fn(|_| StatusCode::FORBIDDEN)));
    let answer = send(&app, Request::post("/").body(Body::empty()).unwrap()).await;
    answer.assert_problem(403, "lock_key_rejected");
    assert_eq!(answer.retry_after(), None);
    assert_eq!(probe.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_handler_is_given_the_lock_and_a_token_that_grows() {
    async fn buy_it(
        FencingToken(token): FencingToken,
        LockGuardExt(lock): LockGuardExt,
        Path(sku): Path<String>,
    ) -> String {
        assert_eq!(lock.token(), token);
        assert_eq!(lock.key().as_str(), format!("buy:{sku}"));
        assert!(lock.is_held());
        token.get().to_string()
    }
    let app = Router::new()
        .route("/buy/{sku}", post(buy_it))
        .route_layer(LockLayer::new(LockClient::memory()).key(path("buy:{sku}")));
    let mut last = 0;
    for _ in 0..3 {
        let token: u64 = send(&app, buy("42")).await.text.parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_without_the_layer_is_told_so_and_an_option_is_none() {
    async fn optional(lock: Option<LockGuardExt>, token: Option<FencingToken>) -> String {
        format!("{} {}", lock.is_none(), token.is_none())
    }
    let app = Router::new()
        .route("/token", get(async |_: FencingToken| ()))
        .route("/lock", get(async |_: LockGuardExt| ()))
        .route("/optional", get(optional));
    for at in ["/token", "/lock"] {
        let request = Request::get(at).body(Body::empty()).unwrap();
        send(&app, request).await.assert_problem(500, "lock_not_held");
    }
    let request = Request::get("/optional").body(Body::empty()).unwrap();
    assert_eq!(send(&app, request).await.text, "true true");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_locks_its_own_key_again_does_not_wait_for_itself() {
    let locks = LockClient::memory();
    let inner = locks.clone();
    let again = async move |FencingToken(token): FencingToken| {
        let guard = inner.lock("job").await.unwrap();
        (guard.token() == token).to_string()
    };
    for detach in [false, true] {
        let mut layer = LockLayer::new(locks.clone());
        if detach {
            layer = layer.detach_on_disconnect();
        }
        let app = Router::new().route("/", post(again.clone())).layer(layer.key(fixed("job")));
        let answer = send(&app, Request::post("/").body(Body::empty()).unwrap()).await;
        assert_eq!(answer.text, "true", "detach: {detach}");
    }
    settle().await;
    assert_eq!((locks.stats().held, locks.stats().keys), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_oversells_on_several_threads() {
    let (locks, sold) = (LockClient::memory(), Arc::new(AtomicUsize::new(0)));
    let stock = sold.clone();
    let buy_it = async move || {
        // Without a lock around it, two would read the same number.
        let seen = stock.load(SeqCst);
        tokio::task::yield_now().await;
        stock.store(seen + 1, SeqCst);
    };
    let layer = LockLayer::new(locks.clone()).key(path("buy:{sku}"));
    let layer = layer.wait(std::time::Duration::from_secs(60));
    let app = Router::new().route("/buy/{sku}", post(buy_it)).route_layer(layer);
    let all: Vec<_> = (0..500).map(|_| spawn(&app, buy("42"))).collect();
    for one in all {
        assert_eq!(one.await.unwrap().status, StatusCode::OK);
    }
    assert_eq!(sold.load(SeqCst), 500);
}

#[tokio::test(start_paused = true)]
async fn claims_have_the_name_of_the_layer_if_it_has_one() {
    let (backend, script) = Scripted::new(Memory::new());
    let locks = LockClient::with_backend(backend);
    let probe = Probe::open();
    let (plain, named) = (LockLayer::new(locks.clone()), LockLayer::new(locks).name("buy"));
    for (layer, sku) in [(plain, "42"), (named, "43")] {
        assert_eq!(send(&shop(layer, &probe), buy(sku)).await.text, "done");
    }
    let names: Vec<_> = script.claims().into_iter().map(|(_, terms)| terms.name).collect();
    assert_eq!(names, [None, Some("buy")]);
}
