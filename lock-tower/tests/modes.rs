//! A key that several requests hold at once: readers, and those with a permit.

mod common;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use common::{Answer, Probe, buy, ms, now, send, settle, shop, spawn};
use http::{Method, Request};
use lock_core::error::Rejection;
use lock_core::{AcquireError, LockClient};
use lock_tower::LockLayer;
use lock_tower::answer::Cause;
use lock_tower::key::path;
use tokio::task::JoinHandle;

/// Two clients of one store, as two servers have them.
async fn two_servers(name: &str) -> [LockClient; 2] {
    let url = format!("memory:{name}");
    [LockClient::connect(&url).await.unwrap(), LockClient::connect(&url).await.unwrap()]
}

/// `GET` and `POST /doc/{id}` under `doc:{id}`, with a probe for each.
fn docs(layer: LockLayer, readers: &Probe, writers: &Probe) -> Router {
    let (readers, writers) = (readers.clone(), writers.clone());
    let doc = get(move || readers.clone().visit()).post(move || writers.clone().visit());
    Router::new().route("/doc/{id}", doc).route_layer(layer.key(path("doc:{id}")))
}

fn ask(app: &Router, method: Method) -> JoinHandle<Answer> {
    spawn(app, Request::builder().method(method).uri("/doc/7").body(Body::empty()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn at_most_as_many_requests_as_there_are_permits_run_at_once_over_all_servers() {
    let (probe, other) = (Probe::new(), Probe::open());
    let [one, two] = two_servers("permits_over_all_servers").await;
    let layer = |locks: &LockClient| LockLayer::new(locks.clone()).permits(5).wait(ms(60_000));
    let apps = [shop(layer(&one), &probe), shop(layer(&two), &probe)];
    let all: Vec<_> = (0..20).map(|n| spawn(&apps[n % 2], buy("42"))).collect();
    for gone in 0..=15 {
        // Time for a recheck, by which one server finds what another gave back.
        tokio::time::sleep(ms(1_000)).await;
        assert_eq!((probe.finished(), probe.inside()), (gone, 5));
        probe.let_through(1);
    }
    assert_eq!(send(&shop(layer(&one), &other), buy("43")).await.text, "done", "of another key");
    probe.let_through(4);
    for one in all {
        assert_eq!(one.await.unwrap().text, "done");
    }
    assert_eq!((probe.inside_max(), probe.finished()), (5, 20));
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_permit_waits_its_time_and_is_refused_as_for_a_lock() {
    let [locks, others] = two_servers("no_permit_left").await;
    let held = [
        locks.lock("buy:42").permits(2).await.unwrap(),
        others.lock("buy:42").permits(2).await.unwrap(),
    ];
    let layer = LockLayer::new(locks).permits(2).wait(ms(100)).retries(1);
    let app = shop(layer.clone(), &Probe::open());
    let begun = now();
    let answer = send(&app, buy("42")).await;
    assert_eq!(begun.elapsed(), ms(200));
    answer.assert_problem(409, "lock_timeout");
    assert!(answer.retry_after().is_some());

    let app = shop(layer.waiters_per_key(1), &Probe::open());
    let waits = spawn(&app, buy("42"));
    settle().await;
    send(&app, buy("42")).await.assert_problem(429, "lock_waiters_per_key");
    drop(held);
    assert_eq!(waits.await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn readers_run_together_and_a_writer_runs_alone_over_all_servers() {
    let (readers, writers) = (Probe::new(), Probe::new());
    let servers = two_servers("readers_and_a_writer").await;
    let apps = servers.map(|locks| {
        let layer = LockLayer::new(locks).shared_if(|head| head.method == Method::GET);
        docs(layer.wait(ms(60_000)), &readers, &writers)
    });
    let mut all = vec![ask(&apps[0], Method::GET), ask(&apps[1], Method::GET)];
    settle().await;
    assert_eq!(readers.inside(), 2);
    all.push(ask(&apps[0], Method::POST));
    settle().await;
    all.push(ask(&apps[0], Method::GET));
    settle().await;
    assert_eq!((readers.entered(), writers.entered()), (2, 0), "the writer is not overtaken");
    readers.let_through(2);
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!((readers.inside(), writers.inside()), (0, 1));
    all.push(ask(&apps[1], Method::POST));
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!((readers.inside(), writers.inside()), (0, 1), "nobody is beside a writer");
    writers.let_through(2);
    readers.let_through(1);
    for one in all {
        assert_eq!(one.await.unwrap().text, "done");
    }
    assert_eq!((readers.inside_max(), writers.inside_max()), (2, 1));
}

/// The predicate that the docs give: axum gives a HEAD to the handler of GET.
#[tokio::test(start_paused = true)]
async fn a_head_request_reads_beside_others() {
    let (readers, writers) = (Probe::new(), Probe::new());
    let layer = LockLayer::new(LockClient::memory()).shared_if(|head| head.method.is_safe());
    let app = docs(layer, &readers, &writers);
    let all = [ask(&app, Method::GET), ask(&app, Method::HEAD), ask(&app, Method::GET)];
    settle().await;
    assert_eq!(readers.inside(), 3);
    readers.let_through(3);
    for one in all {
        assert_eq!(one.await.unwrap().status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_shared_layer_run_beside_each_other_and_not_beside_a_job_that_is_alone() {
    let (locks, probe) = (LockClient::memory(), Probe::new());
    let job = locks.lock("buy:42").await.unwrap();
    let app = shop(LockLayer::new(locks).shared(), &probe);
    let all = [spawn(&app, buy("42")), spawn(&app, buy("42"))];
    settle().await;
    assert_eq!(probe.entered(), 0);
    drop(job);
    settle().await;
    assert_eq!(probe.inside(), 2);
    probe.let_through(2);
    for one in all {
        assert_eq!(one.await.unwrap().text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn of_the_ways_to_share_a_key_the_last_one_counts() {
    let layer = || LockLayer::new(LockClient::memory());
    for (layer, most) in [
        (layer().shared().permits(2), 2),
        (layer().shared_if(|_| true).permits(2), 2),
        (layer().permits(2).shared(), 4),
        (layer().permits(2).shared_if(|_| false), 1),
    ] {
        let probe = Probe::new();
        let app = shop(layer, &probe);
        let all: Vec<_> = (0..4).map(|_| spawn(&app, buy("42"))).collect();
        settle().await;
        assert_eq!(probe.inside(), most);
        probe.let_through(4);
        for one in all {
            assert_eq!(one.await.unwrap().text, "done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_number_of_permits_than_that_in_use_is_answered_with_500() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").permits(5).await.unwrap();
    let layer = LockLayer::new(locks).permits(4).on_busy(|refusal| {
        assert_eq!((refusal.cause(), refusal.tries()), (Cause::Misconfigured, 1));
        assert!(refusal.error().unwrap().to_string().contains("4 permits while those of 5"));
        refusal.default_response()
    });
    let probe = Probe::open();
    let answer = send(&shop(layer, &probe), buy("42")).await;
    answer.assert_problem(500, "lock_misconfigured");
    assert_eq!((answer.retry_after(), probe.entered()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn no_permits_and_too_many_are_answered_with_500() {
    for permits in [0, 1_025] {
        let layer = LockLayer::new(LockClient::memory()).permits(permits);
        let answer = send(&shop(layer, &Probe::open()), buy("42")).await;
        answer.assert_problem(500, "lock_misconfigured");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_handler_or_inner_layer_wants_the_key_alone_is_refused_at_once() {
    let locks = LockClient::memory();
    let inner = locks.clone();
    let handler = async move || match inner.lock("buy:42").await {
        Err(AcquireError::Rejected(Rejection::Upgrade { .. })) => "refused",
        _ => "let in",
    };
    let reader = LockLayer::new(locks.clone()).shared().key(path("buy:{sku}"));
    let app = Router::new().route("/buy/{sku}", post(handler)).route_layer(reader.clone());
    let begun = now();
    assert_eq!(send(&app, buy("42")).await.text, "refused");

    let probe = Probe::open();
    let app = shop(LockLayer::new(locks.clone()), &probe).route_layer(reader);
    send(&app, buy("42")).await.assert_problem(500, "lock_misconfigured");
    assert_eq!((begun.elapsed(), probe.entered()), (ms(0), 0));
    assert_eq!(locks.stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn admission_counts_on_all_permits() {
    let handler = || async {
        tokio::time::sleep(ms(100)).await;
        "done"
    };
    let layer = LockLayer::new(LockClient::memory()).permits(5).key(path("buy:{sku}"));
    let app = Router::new().route("/buy/{sku}", post(handler)).route_layer(layer);
    for _ in 0..3 {
        let rush: Vec<_> = (0..400).map(|_| spawn(&app, buy("42"))).collect();
        let mut done = 0;
        for one in rush {
            let answer = one.await.unwrap();
            match answer.status.as_u16() {
                200 => done += 1,
                429 => answer.assert_problem(429, "lock_overloaded"),
                _ => answer.assert_problem(409, "lock_timeout"),
            }
        }
        // Five of them each 100 ms, within the budget of 4 s.
        assert!((195..=205).contains(&done), "{done} done");
    }
}
