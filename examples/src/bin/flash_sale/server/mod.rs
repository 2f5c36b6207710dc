//! One serving process: its lock client, its shop and its routes.
//!
//! | route | runs under the lock of the sku by | answers |
//! |---|---|---|
//! | `POST /buy/{sku}` | `LockLayer` | 200 sold, 410 sold out, 404 not on sale, else as the layer says |
//! | `POST /restock/{sku}?items=` | `#[distributed_lock]` | 200, else as the macro says |
//! | `GET /counts` | no lock | what this process has counted |
//!
//! Behind a page there are more: `POST /hurry/{sku}` is `/buy` for buyers who wait 4 s and are told
//! at once if that is not enough, `POST /grab/{sku}` is `/buy` without the lock, `GET /now` tells
//! who waits at this moment, and `GET /metrics` is for Prometheus.

mod buy;
mod counts;
mod metrics;
mod now;
mod refused;
mod restock;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, get, post};
use axum::serve::ListenerExt as _;
use lock_core::LockClient;
use lock_core::idempotency::Idempotency;
use lock_tower::LockLayer;
use lock_tower::key::path;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) use buy::{Order, Receipt};
pub(crate) use counts::Counts;
pub(crate) use metrics::metrics;
pub(crate) use now::Now;
pub(crate) use refused::Refused;

use crate::Trouble;
use crate::once;
use crate::options::Plan;
use crate::shop::Shop;

/// With the retry, the last of 1,000 buyers may wait 20 s: some 20 times what the default sale
/// takes, so that a slow machine tells nobody that the shop is busy.
const WAIT: Duration = Duration::from_secs(10);
const RETRIES: u32 = 1;

/// The same for those who are in a hurry.
const HURRY: Duration = Duration::from_secs(2);

/// More are told at once that too many wait.
const WAITERS_MAX: usize = 10_000;

/// How long requests that have their lock may take to end at a shutdown.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
struct App {
    locks: LockClient,
    shop: Shop,
    /// Each order is taken once; with a lock store in SQLite.
    once: Option<Idempotency>,
    /// Between the read and the write of a sale.
    hold: Duration,
    /// Writes that the fence refused.
    stale_writes: Arc<AtomicU64>,
}

// `#[distributed_lock]` finds its client by this.
impl FromRef<App> for LockClient {
    fn from_ref(app: &App) -> Self {
        app.locks.clone()
    }
}

fn routes(app: App, plan: &Plan) -> Router {
    let lock = LockLayer::new(app.locks.clone())
        .key(path("buy:{sku}"))
        .retries(RETRIES)
        .waiters_per_key(WAITERS_MAX)
        .waiters(WAITERS_MAX);
    let patient = lock.clone().wait(WAIT);
    let buy = || post(buy::buy);
    // Outside the lock, so that it sees the wait.
    let noted = |buy: MethodRouter<App>| buy.layer(from_fn(buy::note_arrival));
    let free = plan.without_lock;
    let mut routes = Router::new()
        .route("/buy/{sku}", noted(if free { buy() } else { buy().layer(patient) }))
        .route("/restock/{sku}", post(restock::restock))
        .route("/counts", get(counts::counts));
    if plan.watched {
        routes = routes
            .route("/hurry/{sku}", noted(buy().layer(lock.wait(HURRY))))
            .route("/grab/{sku}", noted(buy()))
            .route("/now", get(now::now))
            .route("/metrics", get(metrics));
    }
    routes.with_state(app)
}

/// A server that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    locks: LockClient,
    shop: Shop,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start(plan: &Plan, listen: SocketAddr) -> Result<Self, Trouble> {
        if plan.watched {
            metrics::install()?;
        }
        let locks = LockClient::connect(&plan.locks).await?;
        let shop = Shop::open(&plan.db).await?;
        let once = match plan.records {
            true => Some(once::open(&locks, &shop).await?),
            false => None,
        };
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let app = App {
            locks: locks.clone(),
            shop: shop.clone(),
            once,
            hold: plan.hold,
            stale_writes: Arc::default(),
        };
        let routes = routes(app, plan);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let listener = listener.tap_io(|stream| {
                // Small answers are not to wait for an acknowledgement; without it they are slower.
                let _ = stream.set_nodelay(true);
            });
            let stopped = async { drop(stopped.await) };
            axum::serve(listener, routes).with_graceful_shutdown(stopped).await
        });
        Ok(Self { address, locks, shop, stop, serving })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn locks(&self) -> LockClient {
        self.locks.clone()
    }

    /// Takes no more connections, sends away who waits for a lock, lets the others finish, and
    /// gives the locks back. Answers whether all were.
    pub(crate) async fn stop(self) -> bool {
        let _ = self.stop.send(());
        // Together: the server waits for its requests, and some of them wait for a lock.
        let (report, _) = tokio::join!(
            self.locks.shutdown(SHUTDOWN_WITHIN),
            timeout(SHUTDOWN_WITHIN, self.serving)
        );
        self.shop.close().await;
        report.complete
    }
}
