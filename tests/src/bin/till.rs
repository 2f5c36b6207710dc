//! A process that books one payment in a SQLite file, and is killed at a step of it.
//!
//! `till --file PATH --mode MODE --kill-at N`: each row that is about to be written, each commit
//! that is about to be made, each stretch of a statement's program and each answer to the program
//! is a step; at the N-th one the process kills itself with `SIGKILL`, so nothing runs after it.
//! Without `--kill-at` it prints how many steps there were.

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::{Parser, ValueEnum};
use lock_core::LockClient;
use lock_core::idempotency::{Begun, Fingerprint, Idempotency, Scope, Tx, TxError};
use lock_core::sql::SqlRecords;
use lock_tower::IdempotencyLayer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tower::ServiceExt as _;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Books one payment; see the file's head.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    file: PathBuf,
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    kill_at: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// `complete_in`, the commit, and `committed`.
    ByHand,
    /// `Execution::commit`.
    Commit,
    /// While a secret is replaced.
    Rotation,
    /// A handler with a `Tx` behind an `IdempotencyLayer`.
    Layer,
}

/// Counts steps, and dies at one.
#[derive(Debug, Clone)]
struct Steps(Arc<(AtomicU32, u32)>);

impl Steps {
    fn step(&self) {
        let step = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        if step == self.0.1 {
            kill(Pid::this(), Signal::SIGKILL).expect("a process may kill itself");
            loop {
                std::thread::park();
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let arguments = Arguments::parse();
    let kill_at = arguments.kill_at.unwrap_or(u32::MAX);
    let steps = Steps(Arc::new((AtomicU32::new(0), kill_at)));
    let pool = pool(&arguments, &steps).await?;
    // The work of this process begins here.
    steps.0.0.store(0, Ordering::SeqCst);
    let once = Idempotency::new("till", LockClient::memory(), SqlRecords::with_pool(&pool));
    let once = match arguments.mode {
        Mode::Rotation => {
            once.with_secret("the new secret of it").with_old_secret("the old one of it")
        }
        _ => once.with_secret("the old one of it"),
    };
    if arguments.mode == Mode::Layer {
        over_http(once, pool, &steps).await?;
    } else {
        by_call(once, pool, arguments.mode, &steps).await?;
    }
    steps.step();
    println!("{}", steps.0.0.load(Ordering::SeqCst));
    Ok(())
}

/// Each connection counts what it does.
async fn pool(arguments: &Arguments, steps: &Steps) -> Result<SqlitePool, Trouble> {
    let options = SqliteConnectOptions::new().filename(&arguments.file);
    let steps = steps.clone();
    let pool = SqlitePoolOptions::new().max_connections(2).after_connect(move |connection, _| {
        let steps = steps.clone();
        Box::pin(async move {
            let mut handle = connection.lock_handle().await?;
            let [write, commit, program] = [(); 3].map(|()| steps.clone());
            handle.set_update_hook(move |_| write.step());
            handle.set_commit_hook(move || {
                commit.step();
                true
            });
            handle.set_progress_handler(5, move || {
                program.step();
                true
            });
            Ok(())
        })
    });
    let pool = pool.connect_with(options).await?;
    // Both connections are there before the first step.
    let both = (pool.acquire().await?, pool.acquire().await?);
    drop(both);
    Ok(pool)
}

/// Two effects, of which none may be there without the other, and without the record.
async fn book(tx: &mut Transaction<'static, Sqlite>, steps: &Steps) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO payments (amount) VALUES (5)").execute(&mut **tx).await?;
    steps.step();
    sqlx::query("UPDATE accounts SET balance = balance - 5 WHERE id = 1")
        .execute(&mut **tx)
        .await?;
    steps.step();
    Ok(())
}

async fn by_call(
    once: Idempotency,
    pool: SqlitePool,
    mode: Mode,
    steps: &Steps,
) -> Result<(), Trouble> {
    let begun = once.begin(&Scope::of("tests"), b"payment", Fingerprint::new([1; 32])).await?;
    steps.step();
    let Begun::Run(mut execution) = begun else { return Err(format!("{begun:?}").into()) };
    let mut tx = pool.begin().await?;
    book(&mut tx, steps).await?;
    let answer = bytes::Bytes::from_static(b"paid");
    if mode == Mode::Commit {
        return Ok(execution.commit(tx, answer).await?);
    }
    execution.complete_in(&mut tx, answer).await?;
    steps.step();
    tx.commit().await?;
    steps.step();
    Ok(execution.committed().await?)
}

#[derive(Clone)]
struct Till {
    pool: SqlitePool,
    steps: Steps,
}

impl axum::extract::FromRef<Till> for SqlitePool {
    fn from_ref(till: &Till) -> Self {
        till.pool.clone()
    }
}

async fn pay(
    axum::extract::State(till): axum::extract::State<Till>,
    mut tx: Tx<Sqlite>,
) -> Result<&'static str, TxError> {
    book(tx.open().await?, &till.steps).await?;
    Ok("paid")
}

async fn over_http(once: Idempotency, pool: SqlitePool, steps: &Steps) -> Result<(), Trouble> {
    let app = axum::Router::new()
        .route("/payments", axum::routing::post(pay))
        .route_layer(IdempotencyLayer::new(once).global_scope().required(true))
        .with_state(Till { pool, steps: steps.clone() });
    let request = axum::http::Request::post("/payments").header("idempotency-key", "payment");
    let response = app.oneshot(request.body(axum::body::Body::empty())?).await?;
    if response.status() != 200 {
        return Err(format!("{response:?}").into());
    }
    Ok(())
}
