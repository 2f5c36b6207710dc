//! HTTP from the buyers' side.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tests::wait::within;
use tokio::task::JoinHandle;

use super::shop::Process;

/// An order and how it is to be served; see the head of `src/bin/orders/main.rs`.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    key: String,
    body: &'static str,
    headers: Vec<(&'static str, String)>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Order {
    pub(crate) fn new(key: &str) -> Self {
        Self { key: key.to_owned(), body: "one of them", headers: Vec::new() }
    }

    /// Waits at this gate.
    pub(crate) fn gate(self, name: &str) -> Self {
        self.with("x-gate", name)
    }

    /// Answers with so many bytes.
    pub(crate) fn bytes(self, bytes: usize) -> Self {
        self.with("x-bytes", &bytes.to_string())
    }

    pub(crate) fn body(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sends it over a connection of its own, which ends with the future.
    pub(crate) async fn send(self, process: &Process) -> Answer {
        let mut request = Request::post(format!("http://{}/orders", process.address()))
            .header("idempotency-key", format!("{:?}", self.key));
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(self.body)).expect("a good request");
        let client: Client<HttpConnector, Body> =
            Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let exchange = async {
            let response = client.request(request).await.expect("a process that answers");
            let (head, body) = response.into_parts();
            let body = to_bytes(Body::new(body), usize::MAX).await.expect("a whole body");
            Answer { status: head.status, headers: head.headers, body }
        };
        within("an answer of the shop", exchange).await
    }

    /// Sends it in a task; aborting that is a client that goes away.
    pub(crate) fn spawn(self, process: &Process) -> JoinHandle<Answer> {
        let process = process.remote();
        tokio::spawn(async move { self.send(&process).await })
    }
}

impl Answer {
    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn retry_after(&self) -> Option<u64> {
        Some(self.headers.get("retry-after")?.to_str().ok()?.parse().expect("seconds"))
    }

    #[track_caller]
    pub(crate) fn assert_sold(&self) -> &Self {
        assert_eq!(self.status, StatusCode::CREATED, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) -> &Self {
        let problem: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let found = (self.status.as_u16(), problem["code"].as_str().unwrap_or_default());
        assert_eq!(found, (status, code), "{self:?}");
        self
    }
}
