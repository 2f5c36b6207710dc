//! What the tests of this binary share.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::{LockClient, LockOptions};
use tempfile::TempDir;
pub(crate) use tests::actor::Actor;
use tests::checker::{Checker, Report};
use tests::history::{Recorder, read};
use tests::redis::{RedisCluster, RedisServer};
use tests::wait::eventually;
use tests::worker::Worker;

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// What a busy machine may add to a bound.
pub(crate) const SLACK: Duration = Duration::from_millis(1_500);

/// How late an answer at the end of a budget may come on a busy machine; 20 ms on an idle one.
const LATE: Duration = Duration::from_millis(500);

/// The longest time between two requests of a waiter.
pub(crate) const RECHECK: Duration = Duration::from_millis(500);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client whose acquires wait 8 s, with `lease`.
pub(crate) async fn connect(url: &str, lease: Duration) -> LockClient {
    let options = LockOptions::new().with_wait(ms(8_000)).with_lease(lease);
    LockClient::builder(url).defaults(options).connect().await.expect("a client")
}

/// The highest token that the server gave; of the slot of `key` where it is a node of a cluster.
pub(crate) fn fence(server: &RedisServer, key: &str) -> Option<u64> {
    server.highest_token(&format!("lock:{{{key}}}"))
}

/// Waits until `n` claims stand in the line for `key`.
pub(crate) async fn line_of(cluster: &RedisCluster, key: &str, n: u64) {
    let queue = format!("lock:{{{key}}}:queue");
    eventually(&format!("{n} claims in line"), || {
        cluster.server_of(key).try_command::<u64>(&["LLEN", &queue]).is_ok_and(|len| len == n)
    })
    .await;
}

/// What there is at the nodes that run beyond the clocks.
pub(crate) fn left_at(cluster: &RedisCluster) -> Vec<String> {
    let mut left = Vec::new();
    for node in cluster.masters() {
        let keys = node.keys().into_iter().filter(|key| !key.is_clock());
        left.extend(keys.map(|key| format!("{key:?}")));
        left.extend(node.channels().into_iter().map(|channel| format!("channel {channel}")));
    }
    left
}

/// V6: of these clients, and of all other processes, no key busy, no waiter, no connection, no
/// subscription and no task is left, and at the nodes only the clocks.
///
/// Tests that call it have joined the tasks of their own.
pub(crate) async fn nothing_left(
    cluster: &RedisCluster,
    clients: impl IntoIterator<Item = LockClient>,
) {
    for client in clients {
        eventually("no key is busy", || client.stats().keys == 0).await;
        let stats = client.stats();
        assert_eq!((stats.waiters, stats.held), (0, 0));
    }
    // The register, the fixture and the replicas speak RESP2.
    let ours = |node: &RedisServer| {
        node.clients().iter().filter(|one| one.field("resp") == Some("3")).count()
    };
    let running = || cluster.nodes().iter().filter(|node| node.is_running());
    eventually("all connections are closed", || running().map(ours).sum::<usize>() == 0).await;
    eventually("only the clock is left", || left_at(cluster).is_empty()).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    eventually("all tasks have ended", || tasks() == 0).await;
}

/// The history of one run, in a file that worker processes share, and the register that the locks
/// protect.
#[derive(Debug)]
pub(crate) struct History {
    _folder: TempDir,
    path: PathBuf,
    recorder: Recorder,
    register: RedisServer,
}

impl History {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::to_file(&path).expect("a history");
        Self { _folder: folder, path, recorder, register: RedisServer::start() }
    }

    /// A worker process on `url`.
    pub(crate) fn worker(&self, name: &str, url: &str, lease_ms: u64) -> Worker {
        let (path, lease) = (self.path.to_str().expect("a plain path"), lease_ms.to_string());
        let resource = self.register.url();
        let arguments = ["--url", url, "--resource", &resource, "--process", name];
        let more = ["--history", path, "--lease-ms", &lease];
        Worker::spawn(WORKER, &[&arguments[..], &more[..]].concat())
    }

    /// A caller in this process.
    pub(crate) fn actor(&self, name: &str, locks: &LockClient) -> Actor {
        Actor::new(&self.recorder, name, locks, self.register.url())
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
