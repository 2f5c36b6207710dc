//! The history of one run.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use lock_core::{LockClient, Mode};
use tempfile::TempDir;

use crate::actor::Actor;
use crate::checker::{Checker, Report, Violation};
use crate::history::{Recorder, read};
use crate::redis::RedisServer;
use crate::worker::{Worker, binary};

/// How late an answer at the end of a budget may come on a busy machine; 20 ms on an idle one.
pub const LATE: Duration = Duration::from_millis(500);

/// The calls of this and of other processes, in a file that they share, and the resource that their
/// locks protect.
#[derive(Debug)]
pub struct History {
    _folder: TempDir,
    path: PathBuf,
    recorder: Recorder,
    resource: String,
    _own: Option<RedisServer>,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// An empty one, with a resource of its own.
    ///
    /// # Panics
    ///
    /// If there is no place for it.
    #[must_use]
    pub fn new() -> Self {
        let own = RedisServer::start();
        let url = own.url();
        Self { _own: Some(own), ..Self::of_resource(url) }
    }

    /// The same with the resource at this Redis URL, which others may use too.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn of_resource(resource: String) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::to_file(&path).expect("a history");
        Self { _folder: folder, path, recorder, resource, _own: None }
    }

    /// Where callers of this process write.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// A worker process on `url` whose holds have this lease.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn worker(&self, name: &str, url: &str, lease: Duration) -> Worker {
        self.worker_in(Mode::Exclusive, name, url, lease)
    }

    /// The same, that acquires in this mode.
    ///
    /// # Panics
    ///
    /// As [`worker`](Self::worker).
    #[must_use]
    pub fn worker_in(&self, mode: Mode, name: &str, url: &str, lease: Duration) -> Worker {
        let (path, lease) = (self.path.to_str().expect("a path"), lease.as_millis().to_string());
        let arguments = ["--url", url, "--resource", &self.resource, "--process", name];
        let more = ["--history", path, "--lease-ms", &lease];
        let of = if let Mode::Permit { of } = mode { of.to_string() } else { String::new() };
        let way: &[&str] = match mode {
            Mode::Shared => &["--shared"],
            Mode::Permit { .. } => &["--permits", &of],
            _ => &[],
        };
        Worker::spawn(binary(), &[&arguments[..], &more[..], way].concat())
    }

    /// A caller in this process.
    #[must_use]
    pub fn actor(&self, name: &str, locks: &LockClient) -> Actor {
        Actor::new(&self.recorder, name, locks, self.resource.clone())
    }

    /// V1, V2 and V4 of everything that was written down.
    ///
    /// # Panics
    ///
    /// Where one does not hold, with what was seen.
    pub fn check(&self, checker: Checker) -> Report {
        let events = read(&self.path).expect("a history");
        match checker.slack(LATE).check(&events) {
            Ok(report) => report,
            Err(violations) if violations.iter().any(Violation::is_of_safety) => {
                panic!("a finding of safety: {violations:#?}")
            }
            Err(violations) => panic!("{violations:#?}"),
        }
    }
}

/// A worker process and the way that it goes.
#[derive(Debug)]
pub struct Remote {
    /// Its way to the servers.
    pub line: super::line::Line,
    pub(super) worker: Worker,
}

impl Deref for Remote {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

impl DerefMut for Remote {
    fn deref_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }
}
