//! The end of a server: who works may finish, who waits is sent away, open streams end.
//!
//! `cargo run -p examples --example graceful_shutdown`

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, MemoryRecords};
use lock_tower::key::path;
use lock_tower::{IdempotencyLayer, LockLayer, inspect};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

const WITHIN: Duration = Duration::from_secs(3); // Well under the time between two events.
static WORK: Semaphore = Semaphore::const_new(0); // Ends when it is told to.

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockClient::memory();
    let once = Idempotency::new("shop", locks.clone(), MemoryRecords::new());
    let handler = post(async || WORK.acquire().await.map_or("", |_| "done"));
    let lock = LockLayer::new(locks.clone()).key(path("example-graceful:{id}"));
    let inspector = inspect::router(locks.clone(), |_| Ok::<_, StatusCode>(()));
    let app = Router::new()
        .route("/pay/{id}", handler.clone().route_layer(lock))
        .route("/order", handler.route_layer(IdempotencyLayer::new(once.clone()).global_scope()))
        .merge(inspector.refresh(Duration::from_secs(10)).into_router());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = format!("http://{}", listener.local_addr()?);

    // The recipe. In a service the signal is ctrl-c or SIGTERM.
    let (signal, signalled) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(locks.closed());
    let serving = tokio::spawn(async { server.await });
    let (closing, records) = (locks.clone(), once.clone());
    let ending = tokio::spawn(async move {
        let _ = signalled.await;
        // Beside each other: the server waits for its handlers, and some of them for a lock.
        let (report, served) = tokio::join!(closing.shutdown(WITHIN), timeout(WITHIN * 2, serving));
        // A handler whose client is gone has a lock, too; here it has written its record.
        (report, served, records.idle(WITHIN).await)
    });

    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let send = |request: Request<Body>| tokio::spawn(client.request(request));
    let to = |path: &str| Request::post(format!("{at}{path}"));
    let works = send(to("/pay/7").body(Body::empty())?);
    let leaves = send(to("/order").header("idempotency-key", "k").body(Body::empty())?);
    while locks.stats().held < 2 {
        tokio::task::yield_now().await;
    }
    leaves.abort();
    let waits = send(to("/pay/7").body(Body::empty())?);
    let events = Request::get(format!("{at}/locks/events")).header("accept", "text/event-stream");
    let stream = send(events.body(Body::empty())?).await??;
    while locks.stats().waiters == 0 {
        tokio::task::yield_now().await;
    }

    let _ = signal.send(());
    let refused = to_bytes(Body::new(waits.await??.into_body()), 65_536).await?;
    assert!(String::from_utf8_lossy(&refused).contains(r#""lock_closed""#));
    WORK.add_permits(2);
    assert_eq!(works.await??.status(), StatusCode::OK);
    let (report, served, written) = ending.await?;
    served???; // In time, though somebody looks on.
    to_bytes(Body::new(stream.into_body()), 65_536).await?;
    assert!(report.complete && report.abandoned == 0 && written);
    println!("{report:?}, {} record", once.stats().completed);
    Ok(())
}
