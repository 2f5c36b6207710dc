//! Rule 6: responses that are too long, endless, or broken.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::common::{send, within};
use crate::fixture::{
    Announced, Runs, assert_never_runs_again, engine, once, order, request, streaming,
};

#[tokio::test(start_paused = true)]
async fn rule_6_a_response_over_its_bound_goes_to_its_caller_and_never_runs_again() {
    let (engine, _) = engine();
    for (key, frames) in [("one", 1), ("many", 100)] {
        let runs = Runs::default();
        let layer = once(&engine).response_bytes_max(4_999);
        let app = runs.shop(layer, move |_| {
            let frame = Bytes::from(vec![b'x'; 5_000 / frames]);
            let frames = vec![Ok::<_, Infallible>(frame); frames];
            Body::from_stream(stream::iter(frames))
        });
        assert_eq!(send(&app, order(key)).await.text, "x".repeat(5_000));
        for _ in 0..2 {
            send(&app, order(key)).await.assert_problem(409, "idempotency_response_not_stored");
        }
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_response_that_announces_too_much_is_not_read_at_all() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let announced = Announced::new(11);
    let body = announced.clone();
    let app = runs.shop(once(&engine).response_bytes_max(10), move |_| Body::new(body.clone()));
    let response = app.clone().oneshot(order("k")).await.unwrap();
    assert_eq!(announced.polled(), 0);
    assert_eq!(response.headers()["content-length"], "11");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 11);
    send(&app, order("k")).await.assert_problem(409, "idempotency_response_not_stored");
}

#[tokio::test(start_paused = true)]
async fn rule_6_a_response_at_its_bound_is_stored() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine).response_bytes_max(10), |_| "ten bytes!");
    for _ in 0..2 {
        assert_eq!(send(&app, order("k")).await.text, "ten bytes!");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn rule_6_an_upgrade_is_passed_on_at_once_and_never_runs_again() {
    let (engine, _) = engine();
    // Whatever the predicate says.
    let layer = once(&engine).store_if(|_| false);
    let (app, _frames) = streaming(layer, |body| {
        let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        head.body(body).unwrap()
    });
    let response = within(app.clone().oneshot(order("k"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_never_runs_again(&app).await;
}

#[tokio::test(start_paused = true)]
async fn a_response_that_breaks_is_broken_for_its_caller_and_never_runs_again() {
    let (engine, _) = engine();
    let (app, frames) = streaming(once(&engine), Response::new);
    frames.send(Ok(Bytes::from_static(b"half"))).unwrap();
    frames.send(Err(std::io::Error::other("a disk"))).unwrap();
    let mut body = within(app.clone().oneshot(order("k"))).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    assert!(body.frame().await.unwrap().unwrap_err().to_string().contains("a disk"));
    assert!(body.frame().await.is_none());
    assert_never_runs_again(&app).await;
}

/// `/orders` answers all methods with this body, and announces five bytes.
fn announcing_five(status: StatusCode, body: &'static str) -> impl Fn(usize) -> Response + Clone {
    move |run| {
        assert_eq!(run, 1, "it runs once");
        let head = Response::builder().status(status).header("content-length", "5");
        head.body(Body::from_stream(stream::iter([Ok::<_, Infallible>(body)]))).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_of_another_length_than_announced_is_broken_and_never_runs_again() {
    for body in ["four", "longer"] {
        let (engine, _) = engine();
        let app = Runs::default().shop(once(&engine), announcing_five(StatusCode::OK, body));
        let response = within(app.clone().oneshot(order("k"))).await.unwrap();
        assert_eq!(response.headers()["content-length"], "5");
        let mut data = response.into_body();
        assert_eq!(data.size_hint().exact(), None);
        assert_eq!(data.frame().await.unwrap().unwrap().into_data().unwrap(), body);
        assert!(data.frame().await.unwrap().is_err(), "its caller learns of it");
        assert_never_runs_again(&app).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_body_may_announce_the_length_of_one() {
    let ok = StatusCode::OK;
    for (method, status, body) in [
        (Method::POST, StatusCode::NO_CONTENT, ""),
        (Method::POST, StatusCode::NOT_MODIFIED, ""),
        (Method::HEAD, ok, "longer, and cut off by the router"),
        (Method::POST, ok, "five!"),
    ] {
        let (engine, _) = engine();
        let layer = once(&engine).methods([Method::POST, Method::HEAD]);
        let app = Runs::default().shop(layer, announcing_five(status, body));
        for replayed in [false, true] {
            let request = request("k").method(method.clone()).body(Body::empty()).unwrap();
            let answer = send(&app, request).await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.headers.contains_key("idempotent-replayed"), replayed);
        }
    }
}
