//! A process that is killed at each step of an execution: the effect and the record are both there,
//! or neither is, and a repeat is answered right.

use std::path::Path;
use std::process::Stdio;

use lock_core::LockClient;
use lock_core::idempotency::{Begun, Fingerprint, Idempotency, Scope};
use lock_core::sql::SqlRecords;
use sqlx::SqlitePool;
use tempfile::TempDir;
use tokio::process::Command;

use crate::support::pool;

/// As in `till.rs`.
const SECRETS: [&str; 2] = ["the old one of it", "the new secret of it"];

/// How many files are tried at a time.
const AT_ONCE: usize = 4;

struct Till {
    folder: TempDir,
    pool: SqlitePool,
}

impl Till {
    async fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let pool = pool(folder.path().join("till.db")).await;
        for sql in [
            "CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",
            "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)",
            "INSERT INTO accounts VALUES (1, 100)",
        ] {
            sqlx::query(sql).execute(&pool).await.expect("a table");
        }
        SqlRecords::with_pool(&pool).migrate().await.expect("a table");
        Self { folder, pool }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("till.db")
    }

    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect("a number")
    }

    async fn books(&self) -> (i64, i64) {
        let payments = self.number("SELECT count(*) FROM payments").await;
        (payments, 100 - self.number("SELECT balance FROM accounts").await)
    }

    /// A later process, whose locks know nothing of the one that was killed.
    fn once(&self, secret: &str) -> Idempotency {
        let records = SqlRecords::with_pool(&self.pool);
        Idempotency::new("till", LockClient::memory(), records).with_secret(secret)
    }
}

/// Runs the process, and tells its steps if it was let to end.
async fn run(file: &Path, mode: &str, kill_at: Option<u32>) -> Option<u32> {
    let mut till = Command::new(env!("CARGO_BIN_EXE_till"));
    till.arg("--file").arg(file).args(["--mode", mode]);
    if let Some(step) = kill_at {
        till.args(["--kill-at", &step.to_string()]);
    }
    let output = till.stderr(Stdio::inherit()).output().await.expect("a process");
    if output.status.success() {
        let steps = String::from_utf8(output.stdout).expect("a number");
        return Some(steps.trim().parse().expect("a number"));
    }
    assert_eq!(output.status.code(), None, "it failed by itself: {output:?}");
    None
}

async fn begin(once: &Idempotency) -> Begun {
    let begun = once.begin(&Scope::of("tests"), b"payment", Fingerprint::new([1; 32])).await;
    begun.expect("a file that answers")
}

/// Kills a process at one step, and looks at what it has left. Tells whether it had happened.
async fn killed_at(mode: &str, step: u32) -> bool {
    let till = Till::new().await;
    // The sweep beside the claim has its own pace, so one may have a few steps less than another.
    let ended = run(&till.file(), mode, Some(step)).await.is_some();
    let books = till.books().await;
    let done = till.number("SELECT count(*) FROM lock_records WHERE state = 'done'").await;
    let secrets = if mode == "rotation" { &SECRETS[..] } else { &SECRETS[..1] };
    let all = i64::try_from(secrets.len()).expect("two");
    let happened = books == (1, 5) && done == all;
    let nothing = books == (0, 0) && done == 0;
    assert!(
        happened || (nothing && !ended),
        "{mode}, step {step}: {books:?} with {done} of {all} records"
    );
    if mode == "layer" {
        // Its fingerprint is of a request, so this is another one: it is known, or free.
        let begun = begin(&till.once(SECRETS[0])).await;
        let seen = matches!(begun, Begun::Run(_) | Begun::Mismatch);
        assert!(seen, "step {step}: {begun:?}");
        let again = run(&till.file(), mode, None).await;
        assert!(again.is_some());
    } else {
        for secret in secrets {
            match begin(&till.once(secret)).await {
                Begun::Replay(payload) => assert!(happened && payload == "paid", "step {step}"),
                Begun::Run(execution) => {
                    assert!(nothing, "step {step}");
                    drop(execution.abort().await);
                }
                other => panic!("step {step}: {other:?}"),
            }
        }
        if nothing {
            assert!(run(&till.file(), mode, None).await.is_some());
        }
    }
    assert_eq!(till.books().await, (1, 5), "{mode}, step {step}: after the repeat");
    happened
}

async fn at_each_step(mode: &'static str) {
    let steps = run(&Till::new().await.file(), mode, None).await.expect("it ends by itself");
    assert!(steps > 20, "{mode} has {steps} steps only");
    let mut happened = Vec::new();
    // Some more, as another one may have more: the last ones are let to end.
    for chunk in (1..=steps + 8).collect::<Vec<_>>().chunks(AT_ONCE) {
        let tries = chunk.iter().map(|step| killed_at(mode, *step));
        happened.extend(futures_util::future::join_all(tries).await);
    }
    assert!(happened.contains(&true) && happened.contains(&false), "{mode}: {happened:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_step_of_a_completion_by_hand() {
    at_each_step("by-hand").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_step_of_a_completion_with_its_commit() {
    at_each_step("commit").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_step_while_a_secret_is_replaced() {
    at_each_step("rotation").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_step_of_a_handler_behind_the_layer() {
    at_each_step("layer").await;
}
