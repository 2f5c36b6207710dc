//! What the tests of this binary share.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::{LockClient, LockOptions};
use tempfile::TempDir;
pub(crate) use tests::actor::Actor;
use tests::checker::{Checker, Report};
use tests::history::{Recorder, read};
use tests::proxy::{Match, Proxy};
use tests::redis::RedisServer;
pub(crate) use tests::said::everything;
use tests::wait::eventually;
use tests::worker::Worker;

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// What a busy machine may add to a bound.
pub(crate) const SLACK: Duration = Duration::from_millis(1_500);

/// How late an answer at the end of a budget may come on a busy machine; 20 ms on an idle one.
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// The longest time between two requests of a waiter.
pub(crate) const RECHECK: Duration = Duration::from_millis(500);

/// How long a waiter that does not ask again counts as alive, and a pushed grant lives at most.
pub(crate) const CLAIM_LEASE: Duration = Duration::from_millis(1_500);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client whose acquires wait 5 s, with `lease`.
pub(crate) async fn connect(url: &str, lease: Duration) -> LockClient {
    let options = LockOptions::new().with_wait(ms(5_000)).with_lease(lease);
    LockClient::builder(url).defaults(options).connect().await.expect("a client")
}

/// A client behind a proxy of its own, for which the server knows every script already.
pub(crate) async fn behind_proxy(server: &RedisServer, lease: Duration) -> (Proxy, LockClient) {
    let proxy = Proxy::start(server.addr());
    let others = server.channels().len();
    let locks = connect(&proxy.url(), lease).await;
    let held = locks.lock("warm-up").await.expect("a free key");
    let rival = connect(&server.url(), lease).await;
    assert!(rival.lock("warm-up").try_acquire().await.expect("an answer").is_none());
    held.release().await.expect("a release");
    drop(rival);
    eventually("the rival is gone", || server.channels().len() <= others + 1).await;
    (proxy, locks)
}

/// The next call of a script for `key` that the server knows.
pub(crate) fn call_for(key: &str) -> Match {
    Match::verb("EVALSHA").containing(format!("lock:{{{key}}}"))
}

/// The highest token that the server gave; of the slot of `key` where it is a node of a cluster.
pub(crate) fn fence(server: &RedisServer, key: &str) -> Option<u64> {
    server.highest_token(&format!("lock:{{{key}}}"))
}

/// How many claims stand in the line for `key`.
pub(crate) fn in_line(server: &RedisServer, key: &str) -> u64 {
    server.command(&["LLEN", &format!("lock:{{{key}}}:queue")])
}

/// Waits until `n` claims stand in the line for `key`.
pub(crate) async fn line_of(server: &RedisServer, key: &str, n: u64) {
    eventually(&format!("{n} claims in line"), || in_line(server, key) == n).await;
}

/// V6: of these clients, and of all other processes, no key busy, no waiter, no connection, no
/// subscription and no task is left, and at the server only the clock.
///
/// Tests that call it have joined the tasks of their own.
pub(crate) async fn nothing_left(
    server: &RedisServer,
    clients: impl IntoIterator<Item = LockClient>,
) {
    for client in clients {
        eventually("no key is busy", || client.stats().keys == 0).await;
        let stats = client.stats();
        assert_eq!((stats.waiters, stats.held), (0, 0));
    }
    // The register and the fixture speak RESP2.
    let ours = || server.clients().iter().filter(|one| one.field("resp") == Some("3")).count();
    eventually("all connections are closed", || ours() == 0).await;
    assert_eq!(server.channels(), Vec::<String>::new());
    eventually("only the clock is left", || {
        server.keys().iter().all(|key| key.name.starts_with("resource:") || key.is_clock())
    })
    .await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    eventually("all tasks have ended", || tasks() == 0).await;
}

/// The history of one run, in a file that worker processes share.
#[derive(Debug)]
pub(crate) struct History {
    _folder: TempDir,
    path: PathBuf,
    recorder: Recorder,
}

impl History {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::to_file(&path).expect("a history");
        Self { _folder: folder, path, recorder }
    }

    /// A worker process on `url` that writes to the register at `server`.
    pub(crate) fn worker(
        &self,
        name: &str,
        url: &str,
        server: &RedisServer,
        lease_ms: u64,
    ) -> Worker {
        let (path, lease) = (self.path.to_str().expect("a plain path"), lease_ms.to_string());
        let resource = server.url();
        let arguments = ["--url", url, "--resource", &resource, "--process", name];
        let more = ["--history", path, "--lease-ms", &lease];
        Worker::spawn(WORKER, &[&arguments[..], &more[..]].concat())
    }

    /// A caller in this process.
    pub(crate) fn actor(&self, name: &str, locks: &LockClient, at: &RedisServer) -> Actor {
        Actor::new(&self.recorder, name, locks, at.url())
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
