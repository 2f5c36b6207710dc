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
use lock_core::idempotency::{Begun, CommitError, Fingerprint, Idempotency, Scope, Tx, TxError};
use lock_core::sql::SqlRecords;
use lock_tower::IdempotencyLayer;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
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
    /// `Execution::commit`, at which the disk takes nothing up to the rollback.
    DiskFailsOnce,
    /// `Execution::commit`, at which the disk takes nothing up to its answer.
    DiskFails,
    /// As [`DiskFailsOnce`](Self::DiskFailsOnce), where the disk takes all, and fails to say that it
    /// is there: `FAILING_SYNC` names the file that has it fail, see `failing_sync.c`.
    SyncFailsOnce,
    /// As [`DiskFails`](Self::DiskFails), in the same way.
    SyncFails,
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

fn main() -> Result<(), Trouble> {
    let arguments = Arguments::parse();
    if matches!(arguments.mode, Mode::DiskFailsOnce | Mode::DiskFails) {
        // A write beyond the limit is then an error, and not the end of the process. Before there
        // is another thread, so that all of them have it.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGXFSZ);
        signals.thread_block()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(till(arguments))
}

/// A trouble with a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    /// It has no room.
    Full,
    /// It does not say that what it took is there.
    Unsure,
}

impl Mode {
    /// The trouble with the disk, and whether that is over with the rollback.
    fn disk(self) -> Option<(Disk, bool)> {
        match self {
            Self::DiskFailsOnce => Some((Disk::Full, true)),
            Self::DiskFails => Some((Disk::Full, false)),
            Self::SyncFailsOnce => Some((Disk::Unsure, true)),
            Self::SyncFails => Some((Disk::Unsure, false)),
            Self::ByHand | Self::Commit | Self::Rotation | Self::Layer => None,
        }
    }
}

impl Disk {
    fn is_well(self, well: bool) {
        match self {
            Self::Full => disk_takes(well),
            Self::Unsure => {
                let file = std::env::var_os("FAILING_SYNC").expect("a file");
                let done = if well { std::fs::remove_file(file) } else { std::fs::write(file, "") };
                done.or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
                .expect("a file");
            }
        }
    }
}

/// From now on no file takes a write, or all of them do.
fn disk_takes(anything: bool) {
    let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).expect("a limit");
    let bytes = if anything { most } else { 0 };
    setrlimit(Resource::RLIMIT_FSIZE, bytes, most).expect("a process may lower its limits");
}

async fn till(arguments: Arguments) -> Result<(), Trouble> {
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
    if arguments.mode.disk().is_some() {
        return on_a_bad_disk(once, pool, arguments.mode, &steps).await;
    }
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

/// Says what became of a commit, and of a retry.
async fn on_a_bad_disk(
    once: Idempotency,
    pool: SqlitePool,
    mode: Mode,
    steps: &Steps,
) -> Result<(), Trouble> {
    let (disk, is_once) = mode.disk().ok_or("nothing is wrong with the disk")?;
    let print = Fingerprint::new([1; 32]);
    let begin = || once.begin(&Scope::Global, b"payment", print);
    let Begun::Run(execution) = begin().await? else { return Err("it has run".into()) };
    let mut tx = pool.begin().await?;
    book(&mut tx, steps).await?;
    let mut handle = tx.lock_handle().await?;
    let mut is_first = true;
    handle.set_commit_hook(move || {
        if std::mem::replace(&mut is_first, false) {
            disk.is_well(false);
        }
        true
    });
    if is_once {
        handle.set_rollback_hook(move || disk.is_well(true));
    }
    drop(handle);
    let ended = execution.commit(tx, bytes::Bytes::from_static(b"paid")).await;
    let said = match &ended {
        Ok(()) => "committed",
        Err(CommitError::NotCommitted { .. }) => "not committed",
        Err(CommitError::Unknown { .. }) => "unknown",
        Err(error) => return Err(format!("{error:?}").into()),
    };
    disk.is_well(true);
    let retry = match begin().await? {
        Begun::Run(retry) if retry.replaced().is_none() => {
            retry.abort().await?;
            "a retry runs"
        }
        _ => "a retry does not know that it is the first",
    };
    let when = if is_once { "" } else { " once the disk is back" };
    println!("{said}, and {retry}{when}");
    Ok(())
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
