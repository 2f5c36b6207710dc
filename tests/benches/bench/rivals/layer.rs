//! A handler behind `LockLayer`, behind what else one would put there, and by itself.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::{Ready, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use lock_core::LockClient;
use lock_tower::key::{HeaderKey, header};
use lock_tower::{LockLayer, LockService};
use tokio::task::coop::consume_budget;
use tower::limit::{ConcurrencyLimit, ConcurrencyLimitLayer};
use tower::util::ServiceFn;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::{LEASE, Rival, client, options};

/// Where the layer finds the key of a request.
const KEY: &str = "x-key";

/// The size of a body, there and back.
const BODY_BYTES: usize = 1_024;

type Answer = Result<Response<Body>, Infallible>;

/// It sends back what it is sent.
type Handler = ServiceFn<fn(Request<Body>) -> Ready<Answer>>;

fn handler() -> Handler {
    service_fn(|request: Request<Body>| ready(Ok(Response::new(request.into_body()))))
}

/// Requests to a service, each with the same body.
#[derive(Clone)]
pub(crate) struct Requests<S> {
    service: S,
    body: Bytes,
}

pub(crate) type Layered = Requests<LockService<Handler, HeaderKey>>;
pub(crate) type Limited = Requests<ConcurrencyLimit<Handler>>;
pub(crate) type Plain = Requests<Handler>;

impl Layered {
    pub(crate) async fn connect(url: &str, has_body: bool) -> Self {
        let locks: LockClient = client(url, options()).await;
        // With a wait that no run reaches.
        let layer = LockLayer::new(locks).wait(6 * LEASE).key(header("bench:{x-key}"));
        let body = if has_body { vec![b'x'; BODY_BYTES].into() } else { Bytes::new() };
        Self { service: layer.layer(handler()), body }
    }
}

impl Limited {
    /// One request at a time, whatever its key.
    pub(crate) fn new() -> Self {
        Self { service: ConcurrencyLimitLayer::new(1).layer(handler()), body: Bytes::new() }
    }
}

impl Plain {
    pub(crate) fn new() -> Self {
        Self { service: handler(), body: Bytes::new() }
    }
}

impl<S, B> Rival for Requests<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible, Future: Send>,
    S: Clone + Send + Sync + 'static,
    B: HttpBody<Data: Send, Error: Debug> + Send,
{
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        // The handler alone waits for nothing, and would let no other task run.
        consume_budget().await;
        let request = Request::post("/").header(KEY, key).body(Body::from(self.body.clone()));
        let answer = self.service.clone().oneshot(request.expect("a request")).await;
        let (head, body) = answer.unwrap_or_else(|never| match never {}).into_parts();
        assert_eq!(head.status, StatusCode::OK);
        // The layer gives the key up at the end of the body.
        held().await;
        body.collect().await.expect("a body");
    }
}
