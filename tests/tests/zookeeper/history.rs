//! What callers of this and other processes did, written down.

use std::path::PathBuf;

use lock_core::LockClient;
use tempfile::TempDir;
use tests::actor::Actor;
use tests::checker::{Checker, Report};
use tests::history::{Recorder, read};
use tests::redis::RedisServer;
use tests::worker::Worker;

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
        Actor::new(&self.recorder, name, locks, self.resource.url())
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
