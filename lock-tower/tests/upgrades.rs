//! Connections that a handler makes something else of, as web sockets are.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use common::{ms, send, settle, within};
use futures_util::FutureExt;
use http::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lock_core::LockClient;
use lock_core::scope::HandlerRan;
use lock_tower::key::fixed;
use lock_tower::{HoldUntil, LockLayer, UpgradeLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;
use tower::{ServiceBuilder, ServiceExt};

fn switching() -> Response {
    let upgrade = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    upgrade.header("connection", "upgrade").header("upgrade", "echo").body(Body::empty()).unwrap()
}

/// How many sockets are open.
type Open = Arc<AtomicUsize>;

/// Echoes until its client goes, under `lock`.
async fn echo(open: Open, lock: Option<UpgradeLock>, mut request: Request) -> Response {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(socket) = upgraded.await else { return };
        open.fetch_add(1, SeqCst);
        let (mut from, mut to) = tokio::io::split(TokioIo::new(socket));
        let _ = tokio::io::copy(&mut from, &mut to).await;
        open.fetch_sub(1, SeqCst);
        drop(lock);
    });
    switching()
}

/// `takes_along`: whether the handler takes its lock along.
fn sockets(layer: LockLayer, takes_along: bool) -> (Router, Open) {
    let open = Open::default();
    let counted = open.clone();
    let handler = async move |lock: Option<UpgradeLock>, request: Request| {
        echo(counted, lock.filter(|_| takes_along), request).await
    };
    (Router::new().route("/", any(handler)).layer(layer.key(fixed("room"))), open)
}

/// The client's end of a connection that asks for an upgrade.
struct Socket(DuplexStream);

impl Socket {
    async fn ask(app: &Router) -> Self {
        let (mut client, server) = duplex(1_024);
        let app = app.clone().map_request(|request: http::Request<_>| request.map(Body::new));
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(server), TowerToHyperService::new(app));
        tokio::spawn(connection.with_upgrades());
        let ask = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
        client.write_all(ask).await.unwrap();
        Self(client)
    }

    /// The head of the answer.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(self.0.read_u8()).await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    async fn echoes(&mut self) {
        self.0.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        within(self.0.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, b"hello");
    }
}

fn to_the_body(locks: &LockClient) -> LockLayer {
    LockLayer::new(locks.clone()).hold_until(HoldUntil::ResponseBody)
}

#[tokio::test(start_paused = true)]
async fn two_sockets_of_one_key_are_open_one_after_the_other() {
    for permits in [false, true] {
        let locks = LockClient::memory();
        let layer = to_the_body(&locks);
        let (app, open) = sockets(if permits { layer.permits(1) } else { layer }, true);
        let mut first = Socket::ask(&app).await;
        assert!(first.head().await.starts_with("HTTP/1.1 101"));
        first.echoes().await;
        let mut second = Socket::ask(&app).await;
        settle().await;
        assert_eq!((open.load(SeqCst), locks.stats().held, locks.stats().waiters), (1, 1, 1));
        first.echoes().await;
        drop(first);
        assert!(second.head().await.starts_with("HTTP/1.1 101"));
        second.echoes().await;
        assert_eq!((open.load(SeqCst), locks.stats().held), (1, 1));
        drop(second);
        settle().await;
        assert_eq!((open.load(SeqCst), locks.stats().held), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_leaves_its_lock_behind_is_refused_and_does_not_happen() {
    let locks = LockClient::memory();
    let (app, open) = sockets(to_the_body(&locks), false);
    let mut socket = Socket::ask(&app).await;
    let head = socket.head().await;
    assert!(head.starts_with("HTTP/1.1 500"), "{head}");
    settle().await;
    assert_eq!((open.load(SeqCst), locks.stats().held), (0, 0));

    let response = app.oneshot(http::Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.extensions().get(), Some(&HandlerRan::InPart));
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_is_an_upgrade_and_no_other_answer_is() {
    let locks = LockClient::memory();
    let layer = to_the_body(&locks).key(fixed("room"));
    let app = Router::new().route("/", any(async |method: Method| method.to_string()));
    let app = app.layer(layer);
    let ask = |method: Method| http::Request::builder().method(method).uri("/");
    let ask = |method| ask(method).body(Body::empty()).unwrap();
    send(&app, ask(Method::CONNECT)).await.assert_problem(500, "lock_upgrade_unheld");
    for method in [Method::GET, Method::POST, Method::HEAD] {
        assert_eq!(send(&app, ask(method)).await.status, 200);
    }
    assert_eq!(locks.stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_holds_to_the_head_lets_sockets_through_and_offers_no_lock() {
    let locks = LockClient::memory();
    let (app, open) = sockets(LockLayer::new(locks.clone()), true);
    let mut both = [Socket::ask(&app).await, Socket::ask(&app).await];
    for socket in &mut both {
        assert!(socket.head().await.starts_with("HTTP/1.1 101"));
        socket.echoes().await;
    }
    assert_eq!((open.load(SeqCst), locks.stats().held), (2, 0));

    let handler = async |_: UpgradeLock| switching();
    let app = Router::new().route("/", any(handler));
    let app = app.layer(LockLayer::new(locks).key(fixed("room")));
    let request = http::Request::get("/").body(Body::empty()).unwrap();
    send(&app, request).await.assert_problem(500, "lock_not_held");
}

#[tokio::test(start_paused = true)]
async fn the_locks_of_all_layers_are_taken_along() {
    let locks = LockClient::memory();
    let layers = ServiceBuilder::new()
        .layer(to_the_body(&locks).key(fixed("outer")))
        .layer(LockLayer::new(locks.clone()).key(fixed("to the head")))
        .layer(to_the_body(&locks).key(fixed("inner")));
    let (end, ended) = oneshot::channel::<()>();
    let ended = Arc::new(std::sync::Mutex::new(Some(ended)));
    let handler = async move |lock: UpgradeLock| {
        let ended = ended.lock().unwrap().take().unwrap();
        tokio::spawn(async move {
            let _ = ended.await;
            drop(lock);
        });
        switching()
    };
    let app = Router::new().route("/", any(handler)).layer(layers);
    let request = http::Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(send(&app, request).await.status, 101);
    settle().await;
    assert_eq!(locks.stats().held, 2);
    drop(end);
    settle().await;
    assert_eq!(locks.stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_lock_that_was_taken_along_is_told() {
    let locks = LockClient::memory();
    let (told, tells) = oneshot::channel();
    let told = Arc::new(std::sync::Mutex::new(Some(told)));
    let handler = async move |lock: UpgradeLock| {
        let told = told.lock().unwrap().take().unwrap();
        assert!(lock.lost().now_or_never().is_none());
        tokio::spawn(async move { told.send(lock.lost().await) });
        switching()
    };
    let layer = to_the_body(&locks).hold_limit(ms(100)).key(fixed("room"));
    let app = Router::new().route("/", any(handler)).layer(layer);
    let request = http::Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(send(&app, request).await.status, 101);
    assert_eq!(within(tells).await.unwrap().key().as_str(), "room");
}
