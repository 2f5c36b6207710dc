//! HTTP from the buyers' side.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::Trouble;

/// Longer than any wait for a lock: a server that does not answer is broken.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A client of all servers; its clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    client: Client<HttpConnector, Body>,
}

impl Web {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    pub(crate) async fn get(
        &self,
        server: SocketAddr,
        path: &str,
    ) -> Result<(StatusCode, Bytes), Trouble> {
        self.send(Method::GET, server, path, String::new()).await
    }

    pub(crate) async fn post(
        &self,
        server: SocketAddr,
        path: &str,
        json: String,
    ) -> Result<(StatusCode, Bytes), Trouble> {
        self.send(Method::POST, server, path, json).await
    }

    async fn send(
        &self,
        method: Method,
        server: SocketAddr,
        path: &str,
        json: String,
    ) -> Result<(StatusCode, Bytes), Trouble> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{server}{path}"))
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(json))?;
        let answered = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = to_bytes(Body::new(body), ANSWER_BYTES_MAX).await?;
            Ok((head.status, body))
        };
        timeout(ANSWER_WITHIN, answered).await.unwrap_or_else(|_| Err("no answer".into()))
    }
}
