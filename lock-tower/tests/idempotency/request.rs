//! Rules 5 and 6: what makes two requests the same, and how much of one is read.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};

use crate::common::{now, send};
use crate::fixture::{Announced, Runs, engine, once, order, request};

#[tokio::test(start_paused = true)]
async fn rule_5_another_request_under_the_same_key_is_refused_and_the_first_stays() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let layer = once(&engine).fingerprint_header("x-version");
    let app = runs.shop(layer, |run| format!("run {run}"));
    let first = || request("k").header("content-type", "text/plain").header("x-version", "1");
    let body = || Body::from("one of them");
    assert_eq!(send(&app, first().body(body()).unwrap()).await.text, "run 1");
    let others: [(&str, Request<Body>); 6] = [
        ("method", first().method(Method::PATCH).body(body()).unwrap()),
        ("query", first().uri("/orders?a=1").body(body()).unwrap()),
        ("body", first().body(Body::from("two of them")).unwrap()),
        ("content type", request("k").header("x-version", "1").body(body()).unwrap()),
        ("content coding", first().header("content-encoding", "gzip").body(body()).unwrap()),
        ("chosen header", request("k").header("content-type", "text/plain").body(body()).unwrap()),
    ];
    for (what, other) in others {
        let answer = send(&app, other).await;
        answer.assert_problem(422, "idempotency_key_reused");
        assert_eq!(answer.retry_after(), None, "{what}");
    }
    let again = first().header("x-trace", "2").body(body()).unwrap();
    assert_eq!(send(&app, again).await.text, "run 1");
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn rule_5_the_order_of_query_parameters_makes_no_other_request() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |run| format!("run {run}"));
    for query in ["/orders?a=1&b=2", "/orders?b=2&a=1"] {
        let request = request("k").uri(query).body(Body::empty()).unwrap();
        assert_eq!(send(&app, request).await.text, "run 1");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_5_two_mounts_of_one_route_are_two_endpoints() {
    let (engine, _) = engine();
    let shop = Runs::default().shop(once(&engine), |run| format!("run {run}"));
    let app = Router::new().nest("/v1", shop.clone()).nest("/v2", shop);
    let to = |uri: &str| request("k").uri(uri).body(Body::empty()).unwrap();
    assert_eq!(send(&app, to("/v1/orders")).await.text, "run 1");
    send(&app, to("/v2/orders")).await.assert_problem(422, "idempotency_key_reused");
}

/// A body that counts the bytes that were read of it, 1 KiB at a time.
fn counted(kib: usize) -> (Body, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let frames = stream::iter(0..kib).map(move |_| {
        counter.fetch_add(1024, SeqCst);
        Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1024]))
    });
    (Body::from_stream(frames), read)
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_request_over_its_bound_is_answered_with_413_before_it_is_read() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine).request_bytes_max(10 * 1024), |_| "ran");
    // Announced.
    let request_of = |body| request("k").body(body).unwrap();
    let announced = Announced::new(10 * 1024 + 1);
    let answer = send(&app, request_of(Body::new(announced.clone()))).await;
    answer.assert_problem(413, "idempotency_body_too_large");
    assert_eq!(announced.polled(), 0);
    // Found.
    let (body, read) = counted(100);
    send(&app, request_of(body)).await.assert_problem(413, "idempotency_body_too_large");
    assert!(read.load(SeqCst) <= 12 * 1024, "{read:?} bytes were read");
    assert_eq!((runs.count(), records.len()), (0, 0));
    // At the bound.
    let (body, _) = counted(10);
    assert_eq!(send(&app, request_of(body)).await.text, "ran");
    // Found, where no more than that may be in memory at once.
    let layer = once(&engine).request_bytes_max(10 * 1024).waiting_bytes_max(10 * 1024);
    let app = runs.shop(layer, |_| "ran");
    let request_of = |body| request("another").body(body).unwrap();
    let (body, _) = counted(100);
    send(&app, request_of(body)).await.assert_problem(413, "idempotency_body_too_large");
}

/// One byte that counts how many of its like are in memory.
struct Byte(Arc<AtomicUsize>);

impl AsRef<[u8]> for Byte {
    fn as_ref(&self) -> &[u8] {
        b"x"
    }
}

impl Drop for Byte {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_request_of_single_bytes_takes_no_more_memory_than_its_length() {
    let (engine, _) = engine();
    let (alive, alive_max) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let most = alive_max.clone();
    let frames = stream::iter(0..1_000).map(move |_| {
        most.fetch_max(alive.fetch_add(1, SeqCst) + 1, SeqCst);
        Ok::<_, Infallible>(Bytes::from_owner(Byte(alive.clone())))
    });
    let handler = async |body: String| body.len().to_string();
    let app = Router::new().route("/orders", axum::routing::post(handler)).layer(once(&engine));
    let request = request("k").body(Body::from_stream(frames)).unwrap();
    assert_eq!(send(&app, request).await.text, "1000");
    assert!(alive_max.load(SeqCst) <= 2, "{alive_max:?} frames were kept");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_breaks_off_is_answered_with_400_and_leaves_nothing() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |_| "ran");
    let frames = [Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("gone"))];
    let broken = request("k").body(Body::from_stream(stream::iter(frames))).unwrap();
    send(&app, broken).await.assert_problem(400, "idempotency_body_incomplete");
    assert_eq!((runs.count(), records.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_answered_with_408_and_gives_its_place_up() {
    let (engine, records) = engine();
    let app = Runs::default().shop(once(&engine).first_requests(1), |_| "ran");
    let endless = stream::pending::<Result<Bytes, Infallible>>();
    let begun = now();
    let answer = send(&app, request("k").body(Body::from_stream(endless)).unwrap()).await;
    answer.assert_problem(408, "idempotency_body_timeout");
    assert_eq!((begun.elapsed(), records.len()), (Duration::from_secs(30), 0));
    assert_eq!(send(&app, order("k")).await.text, "ran");
}

#[tokio::test(start_paused = true)]
async fn the_handler_gets_the_body_as_it_was() {
    let (engine, _) = engine();
    let echo = async |body: String| body;
    let app = Router::new().route("/orders", axum::routing::post(echo)).layer(once(&engine));
    for _ in 0..2 {
        assert_eq!(send(&app, order("k")).await.text, "one of them");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_with_trailers_has_no_exact_length_for_the_handler() {
    let (engine, _) = engine();
    let handler = async |body: Body| {
        let exact = body.size_hint().exact();
        let body = body.collect().await.unwrap();
        format!("{exact:?} {:?}", body.trailers().map(|trailers| trailers["x-sum"].clone()))
    };
    let app = Router::new().route("/orders", axum::routing::post(handler)).layer(once(&engine));
    let trailers =
        HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("7"))]);
    let frames = [Frame::data(Bytes::from("four")), Frame::trailers(trailers)];
    let frames = stream::iter(frames.map(Ok::<_, Infallible>));
    let with = request("with").body(Body::new(StreamBody::new(frames))).unwrap();
    assert_eq!(send(&app, with).await.text, "None Some(\"7\")");
    let without = request("without").body(Body::from("four")).unwrap();
    assert_eq!(send(&app, without).await.text, "Some(4) None");
}
