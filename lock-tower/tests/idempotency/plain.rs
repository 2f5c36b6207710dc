//! Without axum: any tower service over `http`.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{Ready, ready};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use lock_core::FencingToken;
use lock_tower::key::BufferedBody;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::fixture::{engine, once};

type Text = Full<Bytes>;

fn pay(key: &str) -> Request<Text> {
    Request::post("/pay").header("idempotency-key", key).body(Full::from("5 EUR")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_service_of_no_framework_runs_once() {
    let (engine, _) = engine();
    let pay_once = once(&engine).layer(service_fn(|request: Request<BufferedBody<Text>>| async {
        let token = request.extensions().get::<FencingToken>().copied().unwrap();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let text = format!("{} under {token}", String::from_utf8_lossy(&body));
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
    }));
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let response = pay_once.clone().oneshot(pay("k")).await.unwrap();
        bodies.push(response.into_body().collect().await.unwrap().to_bytes());
    }
    assert!(bodies[0].starts_with(b"5 EUR under"));
    assert_eq!(bodies[0], bodies[1]);
    assert_eq!(engine.stats().executed, 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_is_its_callers_and_a_retry_runs() {
    let (engine, records) = engine();
    let failed = AtomicBool::new(false);
    let failed = std::sync::Arc::new(failed);
    let service = once(&engine).layer(service_fn(move |_: Request<BufferedBody<Text>>| {
        ready(match failed.swap(true, SeqCst) {
            false => Err("the service's own"),
            true => Ok(Response::new(Text::from("paid"))),
        })
    }));
    assert_eq!(service.clone().oneshot(pay("k")).await.unwrap_err(), "the service's own");
    assert_eq!(records.len(), 0);
    assert_eq!(service.oneshot(pay("k")).await.unwrap().status(), 200);
}

/// Panics when it is called without having been ready before, as tower's buffers do.
#[derive(Debug, Default)]
struct Strict {
    ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<BufferedBody<Text>>> for Strict {
    type Response = Response<Text>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Text>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<BufferedBody<Text>>) -> Self::Future {
        assert!(self.ready, "called without being ready");
        ready(Ok(Response::new(Text::from("paid"))))
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let (engine, _) = engine();
    let mut service = once(&engine).required(false).layer(Strict::default());
    let without_key = Request::post("/pay").body(Full::from("5 EUR")).unwrap();
    for request in [pay("a"), pay("b"), without_key] {
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
    }
}
