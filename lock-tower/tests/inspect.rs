//! The inspector: who may look, what it tells, and what it lets nobody do.

#![allow(clippy::disallowed_methods)] // the clock is paused

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use common::{Answer, ms, now, send, settle, within};
use futures_util::StreamExt as _;
use http::request::Parts;
use http::{Request, StatusCode};
use lock_core::error::LossReason;
use lock_core::memory::Memory;
use lock_core::{Key, LockClient};
use lock_tower::inspect::{self, Inspector};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt as _;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Knows `ann` and `bob` by a header.
fn who(request: &Parts) -> Result<String, StatusCode> {
    match request.headers.get("x-user").and_then(|user| user.to_str().ok()) {
        Some(user @ ("ann" | "bob")) => Ok(user.to_owned()),
        _ => Err(StatusCode::UNAUTHORIZED),
    }
}

fn inspector(locks: &LockClient) -> Inspector<String> {
    inspect::router(locks.clone(), who)
}

fn app(locks: &LockClient) -> Router {
    inspector(locks).into_router()
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("x-user", "ann").body(Body::empty()).unwrap()
}

fn delete(path: &str) -> Request<Body> {
    let request = Request::delete(path).header("x-user", "ann");
    request.header(inspect::FORCE_RELEASE_HEADER, "1").body(Body::empty()).unwrap()
}

async fn json(app: &Router, path: &str) -> Value {
    let answer = send(app, get(path)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/json");
    serde_json::from_str(&answer.text).unwrap()
}

async fn page(app: &Router, path: &str) -> Answer {
    let mut request = get(path);
    request.headers_mut().insert("accept", "text/html,*/*;q=0.8".parse().unwrap());
    send(app, request).await
}

/// Waits, on a paused clock, until so many wait.
async fn waiting(locks: &LockClient, waiters: usize) {
    while locks.stats().waiters < waiters {
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_route_asks_who_looks_before_anything_else() -> Test {
    let locks = LockClient::memory();
    let guard = locks.lock("k").await?;
    let app = inspector(&locks).allow_force_release(|_, _| true).into_router::<()>();
    for (method, path) in [
        ("GET", "/locks"),
        ("GET", "/locks?of=all"),
        ("GET", "/locks/events"),
        ("GET", "/locks/k"),
        ("DELETE", "/locks/k"),
        ("DELETE", "/locks/events"),
        ("GET", "/locks/-/page.js"),
        ("GET", "/locks/-/page.css"),
    ] {
        for accept in ["text/html", "application/json", "text/event-stream"] {
            let request = Request::builder().method(method).uri(path).header("accept", accept);
            let request = request.header(inspect::FORCE_RELEASE_HEADER, "1").body(Body::empty())?;
            assert_eq!(send(&app, request).await.status, 401, "{method} {path} {accept}");
        }
    }
    assert!(guard.is_held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_busy_keys_are_listed_with_their_holder_and_waiters() -> Test {
    let locks = LockClient::memory();
    let app = app(&locks);
    assert_eq!(json(&app, "/locks").await["keys"], json!([]));
    let guard = locks.lock("busy").lease(Duration::from_secs(10)).await?;
    let _other = locks.lock("a quiet one").await?;
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(locks.lock("busy").acquire())).collect();
    waiting(&locks, 3).await;
    let seen = json(&app, "/locks").await;
    let [first, second] = &seen["keys"].as_array().unwrap()[..] else { panic!("{seen}") };
    assert_eq!((&first["key"], &first["waiters"]), (&json!("busy"), &json!(3)));
    assert_eq!(first["hold"]["token"], guard.token().to_string());
    let left = first["hold"]["lease_left_ms"].as_f64().unwrap();
    assert!((9_000.0..=10_000.0).contains(&left), "{left}");
    assert!(first["hold"]["held_ms"].as_f64().unwrap() < 1_000.0);
    assert_eq!((&second["key"], &second["waiters"]), (&json!("a%20quiet%20one"), &json!(0)));
    assert_eq!((&seen["stats"]["held"], &seen["stats"]["waiters"]), (&json!(2), &json!(3)));
    assert_eq!((&seen["keys_omitted"], &seen["force_release"]), (&json!(0), &json!(false)));
    for waiter in waiters {
        waiter.abort();
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn how_long_a_contended_key_is_held_and_waited_for_is_told() -> Test {
    let locks = LockClient::memory();
    let app = app(&locks);
    let first = locks.lock("k").await?;
    assert_eq!(json(&app, "/locks").await["keys"][0]["holds"], Value::Null);
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let acquire = locks.lock("k").acquire();
        turns.spawn(async move {
            let guard = acquire.await.expect("its turn");
            tokio::time::sleep(ms(10)).await;
            drop(guard);
        });
    }
    waiting(&locks, 20).await;
    drop(first);
    while locks.stats().waiters > 2 {
        settle().await;
    }
    let seen = json(&app, "/locks").await;
    for what in ["holds", "waits"] {
        let at = |name: &str| seen["keys"][0][what][name].as_f64().expect("a time");
        assert!(0.0 < at("p50_ms") && at("p50_ms") <= at("p90_ms"), "{seen}");
        assert!(at("p90_ms") <= at("p99_ms") && at("p99_ms") < 300.0, "{seen}");
    }
    while turns.join_next().await.is_some() {}
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn those_with_the_most_waiters_are_listed_and_the_others_counted() -> Test {
    let locks = LockClient::memory();
    let app = inspector(&locks).rows_max(2).into_router::<()>();
    let mut guards = Vec::new();
    for number in 0..9 {
        guards.push(locks.lock(format!("k{number}")).await?);
    }
    for key in ["k7", "k7", "k4"] {
        drop(tokio::spawn(locks.lock(key).acquire()));
    }
    waiting(&locks, 3).await;
    let seen = json(&app, "/locks").await;
    let keys: Vec<_> = seen["keys"].as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert!(keys == ["k7", "k4"] && seen["keys_omitted"] == 7, "{seen}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_is_asked_of_the_store_which_knows_of_other_processes() -> Test {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    let elsewhere = LockClient::with_backend(store);
    let app = app(&locks);
    let key = Key::from_segments(["order", "a/b:c%"])?;
    let path = format!("/locks/{}", key.as_str().replace('%', "%25"));
    assert_eq!(json(&app, &path).await["holders"], json!([]));
    let guard = elsewhere.lock(key.clone()).await?;
    drop(tokio::spawn(locks.lock(key.clone()).acquire()));
    waiting(&locks, 1).await;
    let seen = json(&app, &path).await;
    assert_eq!(seen["key"], key.as_str());
    // The token is of the block that is reserved for its claim by now.
    let token: u64 = seen["holders"][0]["token"].as_str().unwrap().parse()?;
    assert!(token >= guard.token().get(), "{seen}");
    assert!(seen["holders"][0]["lease_left_ms"].as_f64() > Some(0.0), "{seen}");
    assert!(seen["holders"][0]["held_ms"].as_f64().is_some_and(|held| held < 100.0), "{seen}");
    assert_eq!(seen["waiters"].as_array().unwrap().len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_all_processes_are_asked_of_the_store_once_in_two_seconds() -> Test {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    let elsewhere = LockClient::builder_with(store).label("checkout@web-3").connect().await?;
    let app = inspector(&locks).rows_max(2).into_router::<()>();
    let seen = json(&app, "/locks?of=all").await;
    assert_eq!((&seen["keys"], &seen["is_whole"]), (&json!([]), &json!(true)));
    let _far = elsewhere.lock("far").await?;
    let _near = locks.lock("near").await?;
    drop(tokio::spawn(locks.lock("far").acquire()));
    waiting(&locks, 1).await;
    // However many look, and however often.
    tokio::time::advance(ms(1_900)).await;
    assert_eq!(json(&app, "/locks?of=all").await, seen);
    tokio::time::advance(ms(200)).await;
    let seen = json(&app, "/locks?of=all").await;
    let [far, near] = &seen["keys"].as_array().unwrap()[..] else { panic!("{seen}") };
    assert_eq!((&far["key"], &near["key"]), (&json!("far"), &json!("near")));
    assert_eq!(far["holders"][0]["about"], "checkout@web-3");
    assert_eq!(far["waiters"].as_array().unwrap().len(), 1);
    assert_eq!((&seen["is_whole"], &seen["refresh_ms"]), (&json!(true), &json!(2_000.0)));
    let _third = elsewhere.lock("third").await?;
    tokio::time::advance(ms(2_000)).await;
    let seen = json(&app, "/locks?of=all").await;
    assert_eq!((seen["keys"].as_array().unwrap().len(), &seen["is_whole"]), (2, &json!(false)));
    // Those of this process alone have no such bound on their age.
    assert_eq!(json(&app, "/locks").await["keys"][0]["key"], "far");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_named_as_a_route_is_a_key_to_whoever_asks_for_no_events() -> Test {
    let locks = LockClient::memory();
    let app = inspector(&locks).allow_force_release(|_, _| true).into_router::<()>();
    let guard = locks.lock("events").await?;
    assert_eq!(json(&app, "/locks/events").await["holders"][0]["token"], guard.token().to_string());
    assert_eq!(
        send(&app, delete("/locks/events")).await.text,
        r#"{"key":"events","released":true}"#
    );
    assert_eq!(guard.lost().await.reason(), LossReason::Taken);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_no_encoded_key_is_refused() {
    let app = app(&LockClient::memory());
    for path in
        ["/locks/a%20b", "/locks/%7Ba%7D", "/locks/%FF", &format!("/locks/{}", "k".repeat(513))]
    {
        send(&app, get(path)).await.assert_problem(400, "inspect_key");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_a_key_away_unless_that_is_allowed() -> Test {
    let locks = LockClient::memory();
    let guard = locks.lock("k").await?;
    send(&app(&locks), delete("/locks/k")).await.assert_problem(403, "inspect_read_only");
    let bobs = |user: &String, key: &Key| user == "bob" && key.as_str() == "k";
    let app = inspector(&locks).allow_force_release(bobs).into_router::<()>();
    assert_eq!(json(&app, "/locks").await["force_release"], true);
    send(&app, delete("/locks/k")).await.assert_problem(403, "inspect_forbidden");
    let mut by_bob = delete("/locks/k");
    by_bob.headers_mut().insert("x-user", "bob".parse()?);
    let mut bare = by_bob.headers().clone();
    bare.remove(inspect::FORCE_RELEASE_HEADER);
    let mut foreign = by_bob.headers().clone();
    foreign.insert("sec-fetch-site", "cross-site".parse()?);
    for headers in [bare, foreign] {
        let mut request = delete("/locks/k");
        *request.headers_mut() = headers;
        send(&app, request).await.assert_problem(403, "inspect_cross_site");
    }
    assert!(guard.is_held(), "refused, yet taken away");

    let next = tokio::spawn(locks.lock("k").acquire());
    waiting(&locks, 1).await;
    let answer = send(&app, by_bob).await;
    assert_eq!((answer.status.as_u16(), &*answer.text), (200, r#"{"key":"k","released":true}"#));
    assert_eq!(within(guard.lost()).await.reason(), LossReason::Taken);
    let next = within(next).await??;
    assert!(next.token() > guard.token());
    next.release().await?;
    settle().await;
    let mut again = delete("/locks/k");
    again.headers_mut().insert("x-user", "bob".parse()?);
    assert_eq!(send(&app, again).await.text, r#"{"key":"k","released":false}"#);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn browsers_get_a_page_that_runs_nothing_from_elsewhere_and_nothing_inline() {
    let app = app(&LockClient::memory());
    let answer = page(&app, "/locks").await;
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers["vary"], "accept");
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!answer.text.contains("://"), "the page leads elsewhere");
    for (asset, kind) in [("page.js", "text/javascript"), ("page.css", "text/css")] {
        assert!(answer.text.contains(&format!("\"locks/-/{asset}\"")), "{asset}");
        let asset = send(&app, get(&format!("/locks/-/{asset}"))).await;
        assert!(asset.headers["content-type"].to_str().unwrap().starts_with(kind));
        assert_eq!(asset.headers["x-content-type-options"], "nosniff");
        for way_in in ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "://"] {
            assert!(!asset.text.contains(way_in), "{way_in}");
        }
    }
}

/// The snapshots of a stream, one by one.
struct Events(BodyDataStream);

impl Events {
    async fn open(app: &Router) -> Self {
        let mut request = get("/locks/events");
        request.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
        let answer = app.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self(answer.into_body().into_data_stream())
    }

    async fn next(&mut self) -> Option<Value> {
        let event = tokio::time::timeout(ms(400_000), self.0.next()).await.expect("a hang")?;
        let event = String::from_utf8(event.unwrap().to_vec()).unwrap();
        let data = event.strip_prefix("retry: 2000\ndata: ").and_then(|e| e.strip_suffix("\n\n"));
        Some(serde_json::from_str(data.expect("one event")).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn events_come_at_once_and_then_at_the_rate_that_was_set() -> Test {
    let locks = LockClient::memory();
    let app = inspector(&locks).refresh(ms(250)).into_router::<()>();
    let mut events = Events::open(&app).await;
    let begun = now();
    assert_eq!(events.next().await.unwrap()["keys"], json!([]));
    assert_eq!(begun.elapsed(), ms(0));
    let guard = locks.lock("k").await?;
    for number in 1..=8 {
        let seen = events.next().await.unwrap();
        assert_eq!(seen["keys"][0]["hold"]["token"], guard.token().to_string());
        assert!(begun.elapsed() >= ms(250) * number && begun.elapsed() < ms(260) * number);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_five_minutes() {
    let locks = LockClient::memory();
    let app = app(&locks);
    let (mut events, begun) = (Events::open(&app).await, now());
    while events.next().await.is_some() {}
    let lasted = begun.elapsed();
    assert!((ms(299_000)..=ms(301_000)).contains(&lasted), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn streams_end_at_once_when_the_client_shuts_down() {
    let locks = LockClient::memory();
    let app = inspector(&locks).refresh(Duration::from_secs(10)).into_router::<()>();
    let mut open = [Events::open(&app).await, Events::open(&app).await];
    for events in &mut open {
        assert!(events.next().await.is_some());
    }
    let waits = tokio::spawn(async move {
        for events in &mut open {
            assert!(events.next().await.is_none(), "a graceful shutdown would wait for it");
        }
    });
    settle().await;
    let begun = now();
    locks.shutdown(Duration::ZERO).await;
    waits.await.unwrap();
    assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
    assert!(Events::open(&app).await.next().await.is_none(), "one that was opened since");
}

#[tokio::test(start_paused = true)]
async fn streams_end_at_once_when_the_service_says_so_and_the_rest_goes_on() -> Test {
    let locks = LockClient::memory();
    let (drained, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let app = inspector(&locks)
        .refresh(Duration::from_secs(10))
        .until(drained.clone().notified_owned())
        .until(stopped.clone().notified_owned())
        .into_router::<()>();
    let mut open = [Events::open(&app).await, Events::open(&app).await];
    for events in &mut open {
        assert!(events.next().await.is_some());
    }
    let begun = now();
    stopped.notify_waiters();
    for events in &mut open {
        assert!(events.next().await.is_none());
    }
    assert!(Events::open(&app).await.next().await.is_none());
    assert_eq!(begun.elapsed(), ms(0));
    assert_eq!(json(&app, "/locks").await["keys"], json!([]));
    assert!(!locks.is_closed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_told_when_to_end_ends_with_the_client_too() {
    let locks = LockClient::memory();
    let inspector = inspector(&locks).refresh(Duration::from_secs(10));
    let app = inspector.until(std::future::pending()).into_router::<()>();
    let mut events = Events::open(&app).await;
    assert!(events.next().await.is_some());
    let begun = now();
    locks.shutdown(Duration::ZERO).await;
    assert!(events.next().await.is_none());
    assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn viewers_are_bounded_and_who_goes_makes_room() {
    let locks = LockClient::memory();
    let app = app(&locks);
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(Events::open(&app).await);
    }
    let mut request = get("/locks/events");
    request.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
    let refused = send(&app, request).await;
    refused.assert_problem(429, "inspect_viewers");
    assert!(refused.retry_after().is_some());
    open.pop();
    let mut late = Events::open(&app).await;
    assert!(late.next().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn authentication_sees_the_request_and_its_extensions() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    let inspector = inspect::router(LockClient::memory(), move |request: &Parts| {
        seen.fetch_add(1, SeqCst);
        request.extensions.get::<u32>().copied().ok_or((StatusCode::FORBIDDEN, "not you"))
    });
    let app: Router = inspector.into();
    let mut known = get("/locks");
    known.extensions_mut().insert(7_u32);
    assert_eq!(send(&app, known).await.status, 200);
    let refused = send(&app, get("/locks")).await;
    assert_eq!((refused.status.as_u16(), &*refused.text), (403, "not you"));
    assert_eq!(asked.load(SeqCst), 2);
}
