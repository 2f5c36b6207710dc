//! The end of a server with streams, handlers and waiters, over real connections.

mod common;

use std::future::{Future, IntoFuture};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use common::{Probe, shop, within};
use http::StatusCode;
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, MemoryRecords};
use lock_tower::inspect::{self, Inspector};
use lock_tower::{IdempotencyLayer, LockLayer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

/// Between two events; a drain that waits for the next one fails.
const REFRESH: Duration = Duration::from_secs(10);

/// No machine is so slow.
const WELL_UNDER: Duration = Duration::from_secs(9);

struct Server {
    address: SocketAddr,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Server {
    async fn start(app: Router, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = axum::serve(listener, app).with_graceful_shutdown(stop);
        Self { address, serving: tokio::spawn(serving.into_future()) }
    }

    async fn send(&self, request: &str) -> Connection {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{request}\r\nhost: shop\r\n\r\n").as_bytes()).await.unwrap();
        Connection { stream, seen: String::new() }
    }

    /// A viewer who has seen the first event, and waits for the next.
    async fn look(&self) -> Connection {
        let request = "GET /locks/events HTTP/1.1\r\naccept: text/event-stream";
        let mut viewer = self.send(request).await;
        viewer.until("data: {").await;
        viewer
    }

    async fn drained(self) {
        let drained = timeout(WELL_UNDER, self.serving).await;
        drained.expect("it waits for somebody").unwrap().unwrap();
    }
}

struct Connection {
    stream: TcpStream,
    seen: String,
}

impl Connection {
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        let count = within(self.stream.read(&mut bytes)).await.unwrap();
        self.seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        count > 0
    }

    async fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read().await, "no {text} in {}", self.seen);
        }
    }

    async fn rest(mut self) -> String {
        while self.read().await {}
        self.seen
    }
}

fn inspector(locks: &LockClient) -> Inspector<()> {
    inspect::router(locks.clone(), |_| Ok::<_, StatusCode>(())).refresh(REFRESH)
}

async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_drain_lets_handlers_finish_refuses_waiters_and_ends_streams() {
    let locks = LockClient::memory();
    let probe = Probe::new();
    let layer = LockLayer::new(locks.clone()).wait(Duration::from_secs(60));
    let app = shop(layer, &probe).merge(inspector(&locks).into_router());
    let server = Server::start(app, locks.closed()).await;
    let running = server.send("POST /buy/lamp HTTP/1.1").await;
    until(|| probe.inside() == 1).await;
    let mut waiter = server.send("POST /buy/lamp HTTP/1.1").await;
    until(|| locks.stats().waiters == 1).await;
    let viewer = server.look().await;

    let shutdown = async {
        // The handler ends when the waiter was refused, so the one does not wait for the other.
        let (report, ()) = tokio::join!(locks.shutdown(WELL_UNDER), async {
            waiter.until("lock_closed").await;
            probe.let_through(1);
        });
        report
    };
    let (report, ()) = tokio::join!(shutdown, server.drained());
    assert!(report.complete && report.abandoned == 0, "{report:?}");
    assert_eq!((probe.entered(), probe.finished()), (1, 1));
    let running = running.rest().await;
    assert!(running.starts_with("HTTP/1.1 200 ") && running.ends_with("done"), "{running}");
    let waiter = waiter.rest().await;
    assert!(waiter.starts_with("HTTP/1.1 503 "), "{waiter}");
    let viewer = viewer.rest().await;
    assert!(viewer.ends_with("0\r\n\r\n"), "a stream was broken off: {viewer}");
}

#[tokio::test]
async fn a_drain_ends_before_the_locks_do_where_the_streams_are_told() {
    let locks = LockClient::memory();
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel::<()>();
    let inspector = inspector(&locks).until(async { drop(told.await) });
    let app = Router::new().merge(inspector.into_router());
    let server = Server::start(app, async { drop(stopped.await) }).await;
    let mut viewers = Vec::new();
    for _ in 0..3 {
        viewers.push(server.look().await);
    }
    drop((stop, tell));
    server.drained().await;
    assert!(!locks.is_closed());
    for viewer in viewers {
        assert!(viewer.rest().await.ends_with("0\r\n\r\n"));
    }
}

#[tokio::test]
async fn an_idempotent_handler_whose_client_is_gone_is_waited_for_and_leaves_its_record() {
    let (locks, records) = (LockClient::memory(), MemoryRecords::new());
    let once = Idempotency::new("tests", locks.clone(), records.clone());
    let probe = Probe::new();
    let layer = || IdempotencyLayer::new(once.clone()).global_scope();
    let handler = probe.clone();
    let app = Router::new().route("/buy", post(move || handler.clone().visit()));
    let server = Server::start(app.clone().route_layer(layer()), locks.closed()).await;
    let gone = server.send("POST /buy HTTP/1.1\r\nidempotency-key: k").await;
    until(|| probe.inside() == 1).await;
    drop(gone);

    let mut shutdown = pin!(locks.shutdown(WELL_UNDER));
    let mut context = Context::from_waker(Waker::noop());
    assert!(shutdown.as_mut().poll(&mut context).is_pending(), "it does not wait for it");
    // No connection is left, and no server: this handler is nobody's but the engine's.
    server.drained().await;
    assert_eq!((probe.inside(), probe.finished()), (1, 0));
    probe.let_through(1);
    let report = within(shutdown).await;
    assert!(report.complete && report.abandoned == 0, "{report:?}");
    assert!(within(once.idle(WELL_UNDER)).await);
    assert_eq!(probe.finished(), 1);

    let next = Idempotency::new("tests", LockClient::memory(), records);
    let app = app.route_layer(IdempotencyLayer::new(next).global_scope());
    let retry = http::Request::post("/buy").header("idempotency-key", "k");
    let answer = common::send(&app, retry.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!((&*answer.text, probe.entered()), ("done", 1));
    assert!(answer.headers.contains_key("idempotent-replayed"));
}
