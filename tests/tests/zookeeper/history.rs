//! What callers of this and other processes did, written down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{AcquireError, LockClient, LockGuard, ReleaseError};
use tempfile::TempDir;
use tests::checker::{Checker, Report};
use tests::history::{Fun, Process, Recorder, read};
use tests::redis::RedisServer;
use tests::resource::FencedRegister;
use tests::worker::Worker;
use tokio::sync::OnceCell;

use crate::support::LATE;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// The history of one run, in a file that worker processes share, and the resource that the
/// locks protect.
#[derive(Debug)]
pub(crate) struct History {
    _folder: TempDir,
    path: PathBuf,
    recorder: Recorder,
    resource: RedisServer,
}

impl History {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::to_file(&path).expect("a history");
        Self { _folder: folder, path, recorder, resource: RedisServer::start() }
    }

    /// A worker process on `url`.
    pub(crate) fn worker(&self, name: &str, url: &str) -> Worker {
        let path = self.path.to_str().expect("a plain path");
        let resource = self.resource.url();
        let arguments = ["--url", url, "--resource", &resource, "--process", name];
        let more = ["--history", path, "--lease-ms", "30000"];
        Worker::spawn(WORKER, &[&arguments[..], &more[..]].concat())
    }

    /// A caller in this process.
    pub(crate) fn actor(&self, name: &str, locks: &LockClient) -> Actor {
        let process = self.recorder.process(name);
        let (locks, name, url) = (locks.clone(), name.to_owned(), self.resource.url());
        Actor { locks, name, process, url, register: Arc::default() }
    }

    /// V1, V2 and V4 of everything that was written down.
    pub(crate) fn check(&self, checker: Checker) -> Report {
        let events = read(&self.path).expect("a history");
        match checker.slack(LATE).check(&events) {
            Ok(report) => report,
            Err(violations) => panic!("{violations:#?}"),
        }
    }
}

/// A caller in this process that writes down what it does.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) locks: LockClient,
    name: String,
    process: Process,
    url: String,
    /// Connected at the first write.
    register: Arc<OnceCell<FencedRegister>>,
}

impl Actor {
    /// Waits for `key`; also how long that took.
    pub(crate) async fn acquire(
        &self,
        key: &str,
        wait: Duration,
    ) -> (Result<LockGuard, AcquireError>, Duration) {
        let budget = u64::try_from(wait.as_millis()).expect("a short wait");
        let call = self.process.invoke(Fun::Acquire, key).budget_ms(budget).begin();
        let start = Instant::now();
        let answer = self.locks.lock(key).wait(wait).await;
        match &answer {
            Ok(guard) => call.ok(Some(guard.token().get())),
            Err(error) if error.is_unavailable() => call.info(),
            Err(_) => call.fail(),
        }
        (answer, start.elapsed())
    }

    pub(crate) async fn release(&self, guard: LockGuard) -> Result<(), ReleaseError> {
        let (key, token) = (guard.key().to_string(), guard.token().get());
        let call = self.process.invoke(Fun::Release, &key).token(token).begin();
        let answer = guard.release().await;
        match &answer {
            Ok(()) => call.ok(None),
            Err(ReleaseError::NotHeld { .. }) => call.fail(),
            Err(_) => call.info(),
        }
        answer
    }

    /// A fenced write under the guard's token; whether it was accepted.
    pub(crate) async fn write(&self, guard: &LockGuard) -> bool {
        let (key, token) = (guard.key().to_string(), guard.token().get());
        let call = self.process.invoke(Fun::Write, &key).token(token).begin();
        let connect = FencedRegister::connect(&self.url);
        let register = self.register.get_or_try_init(|| connect).await.expect("the register");
        let accepted = register.write(&key, token, &self.name).await.expect("the register");
        if accepted {
            call.ok(None)
        } else {
            call.fail()
        }
        accepted
    }

    /// Waits for the loss, and writes down that it was told.
    pub(crate) async fn lost(&self, guard: &LockGuard) -> lock_core::LostError {
        let error = tests::wait::within("the loss", guard.lost()).await;
        self.process.lost(guard.key().as_str(), guard.token().get());
        error
    }
}
