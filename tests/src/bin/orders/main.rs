//! A process that serves `POST /orders` behind an idempotency layer, to be stopped and cut off by
//! tests.
//!
//! It prints one line of JSON, whose `value` is its address, and serves until its standard input
//! ends. `stats` there is answered with the counters of the engine.
//!
//! A request says in headers, which are no part of its fingerprint, how it is to be served:
//! `x-gate: NAME` waits until the ledger has the key `gate:NAME`, `x-bytes: N` answers with as many
//! bytes. Each run is on the list `runs` of the ledger, and each that ended on the list `ended`.

#![allow(clippy::disallowed_methods)]

mod handler;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::post;
use clap::Parser;
use lock_core::idempotency::{Duplicates, Idempotency, OnUnknown};
use lock_core::redis::RedisRecords;
use lock_core::{LockClient, LockOptions};
use lock_tower::idempotency::{OnDisconnect, OnStoreDown};
use lock_tower::{IdempotencyLayer, OnLost};
use serde_json::json;
use tests::worker::Reply;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Serves orders once each; see the file's head.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// The lock service and the record store, as `redis://127.0.0.1:6379`.
    #[arg(long)]
    url: String,
    /// The Redis in which runs are written down.
    #[arg(long)]
    ledger: String,
    /// The lease, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    lease_ms: u64,
    /// Refuses duplicates in flight instead of letting them wait.
    #[arg(long)]
    reject: bool,
    /// Refuses what may have run, instead of running it again.
    #[arg(long)]
    refuse_unknown: bool,
    /// Lets a handler run on that has lost its lock.
    #[arg(long)]
    report_lost: bool,
    /// Runs without protection while the store is out of reach.
    #[arg(long)]
    fail_open: bool,
    /// Drops a handler whose client goes away.
    #[arg(long)]
    abort_on_disconnect: bool,
    /// The longest response that is stored, in bytes.
    #[arg(long, default_value_t = 65_536)]
    response_bytes_max: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = serve(&Arguments::parse()).await {
        answer(&Reply::failed("unavailable", error));
        std::process::exit(1);
    }
}

async fn serve(arguments: &Arguments) -> Result<(), Trouble> {
    let engine = engine(arguments).await?;
    let state = handler::Orders::connect(&arguments.ledger).await?;
    let open = Open::default();
    let app = Router::new()
        .route("/orders", post(handler::order))
        .route_layer(layer(arguments, engine.clone()))
        .route_layer(from_fn_with_state(open.clone(), count))
        .with_state(state);
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    answer(&Reply { value: Some(json!(address)), ..Reply::done() });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    // The end of the commands is the end of the test.
    while let Some(line) = lines.next_line().await? {
        answer(&match line.trim() {
            "stats" => stats(&engine, &open),
            _ => Reply::failed("usage", format!("unknown command {line:?}")),
        });
    }
    Ok(())
}

async fn engine(arguments: &Arguments) -> Result<Idempotency, Trouble> {
    let lease = Duration::from_millis(arguments.lease_ms);
    let options = LockOptions::default().with_lease(lease);
    let locks = LockClient::builder(&arguments.url).defaults(options).connect().await?;
    let records = RedisRecords::connect(&arguments.url).await?;
    let engine = Idempotency::new("tests", locks, records).with_secret("a secret of the tests");
    let engine = if arguments.reject { engine.with_duplicates(Duplicates::Reject) } else { engine };
    Ok(if arguments.refuse_unknown { engine.with_on_unknown(OnUnknown::Refuse) } else { engine })
}

fn layer(
    arguments: &Arguments,
    engine: Idempotency,
) -> IdempotencyLayer<lock_tower::idempotency::HasScope> {
    let mut layer = IdempotencyLayer::new(engine)
        .global_scope()
        .response_bytes_max(arguments.response_bytes_max);
    if arguments.report_lost {
        layer = layer.on_lost(OnLost::Report);
    }
    if arguments.fail_open {
        layer = layer.on_store_down(OnStoreDown::FailOpen);
    }
    if arguments.abort_on_disconnect {
        layer = layer.on_disconnect(OnDisconnect::Abort);
    }
    layer
}

/// How many requests have clients that wait for them.
#[derive(Clone, Debug, Default)]
struct Open(Arc<AtomicUsize>);

struct Inside(Open);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

async fn count(State(open): State<Open>, request: Request, next: Next) -> Response {
    open.0.fetch_add(1, SeqCst);
    // Dropped with this future when the client goes away.
    let _inside = Inside(open);
    next.run(request).await
}

fn stats(engine: &Idempotency, open: &Open) -> Reply {
    let stats = engine.stats();
    let value = json!({
        "executed": stats.executed,
        "replayed": stats.replayed,
        "stale_completions": stats.stale_completions,
        "unknown": stats.unknown,
        "aborted": stats.aborted,
        "busy": stats.busy,
        "open": open.0.load(SeqCst),
    });
    Reply { value: Some(value), ..Reply::done() }
}

fn answer(reply: &Reply) {
    println!("{}", serde_json::to_string(reply).expect("a reply is plain data"));
}
