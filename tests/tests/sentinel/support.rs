//! What the tests of this binary share.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::{LockClient, LockOptions};
use tempfile::TempDir;
use tests::checker::{Checker, Report};
use tests::history::{Recorder, read};
pub(crate) use tests::redis::{RedisServer, SentinelOptions, SentinelSet};
pub(crate) use tests::wait::{eventually, within};
use tests::worker::Worker;
use tokio::sync::{Semaphore, SemaphorePermit};

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// A switch is followed within this.
pub(crate) const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);

/// How late an answer at the end of a budget may come on a busy machine; 20 ms on an idle one.
pub(crate) const LATE: Duration = Duration::from_millis(500);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Six servers each: more sets at once and a starved sentinel takes a live master for dead.
static SETS: Semaphore = Semaphore::const_new(2);

/// A set of a test's own, and its turn.
pub(crate) async fn a_set() -> (SemaphorePermit<'static>, SentinelSet) {
    a_set_with(SentinelOptions::default()).await
}

pub(crate) async fn a_set_with(
    options: SentinelOptions,
) -> (SemaphorePermit<'static>, SentinelSet) {
    let turn = SETS.acquire().await.expect("never closed");
    (turn, SentinelSet::with(options).await)
}

/// A set whose replicas can be cut off from their master: they log in there.
pub(crate) async fn a_set_to_cut() -> (SemaphorePermit<'static>, SentinelSet) {
    a_set_with(SentinelOptions::default().passwords(SERVER_PASSWORD, SENTINEL_PASSWORD)).await
}

pub(crate) const SERVER_PASSWORD: &str = "of-the-servers";
pub(crate) const SENTINEL_PASSWORD: &str = "of-the-sentinels";

/// Cuts the replicas off: what is written from now on does not reach them.
pub(crate) async fn cut(set: &SentinelSet, master: usize) {
    for replica in set.others(master) {
        set.server(replica).command::<()>(&["CONFIG", "SET", "masterauth", "wrong"]);
    }
    set.server(master).command::<()>(&["CLIENT", "KILL", "TYPE", "replica"]);
    eventually("no replica is left", || {
        let info: String = set.server(master).command(&["INFO", "replication"]);
        info.contains("connected_slaves:0")
    })
    .await;
}

/// Lets them come back, to whoever is their master now.
pub(crate) fn heal(set: &SentinelSet, replicas: &[usize]) {
    for replica in replicas {
        set.server(*replica).command::<()>(&["CONFIG", "SET", "masterauth", SERVER_PASSWORD]);
    }
}

/// A client whose acquires wait 10 s, with `lease`.
pub(crate) async fn connect(url: &str, lease: Duration) -> LockClient {
    let options = LockOptions::new().with_wait(ms(10_000)).with_lease(lease);
    LockClient::builder(url).defaults(options).connect().await.expect("a client")
}

/// Whether a server has a connection of a lock client. The fixture and the servers among
/// themselves speak RESP2.
pub(crate) fn has_clients(server: &RedisServer) -> bool {
    server.clients().iter().any(|one| one.field("resp") == Some("3"))
}

/// How many lock clients a server pushes to.
pub(crate) fn listeners(server: &RedisServer) -> usize {
    let clients = server.clients();
    let ours = clients.iter().filter(|one| one.field("resp") == Some("3"));
    ours.filter(|one| one.subscriptions() > 0).count()
}

/// V6: of these clients nothing is left, no task, no connection, no waiter.
pub(crate) async fn nothing_left(
    set: &SentinelSet,
    servers: &[usize],
    clients: impl IntoIterator<Item = LockClient>,
) {
    for client in clients {
        eventually("no key is busy", || client.stats().keys == 0).await;
        let stats = client.stats();
        assert_eq!((stats.waiters, stats.held), (0, 0));
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    eventually("all tasks have ended", || tasks() == 0).await;
    for server in servers {
        eventually("all connections are closed", || !has_clients(set.server(*server))).await;
    }
}

/// The history of one run, in a file that worker processes share.
#[derive(Debug)]
pub(crate) struct History {
    _folder: TempDir,
    path: PathBuf,
    pub(crate) recorder: Recorder,
}

impl History {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::to_file(&path).expect("a history");
        Self { _folder: folder, path, recorder }
    }

    /// A worker process on `url` that writes to the register at `register`.
    pub(crate) fn worker(
        &self,
        name: &str,
        url: &str,
        register: &RedisServer,
        lease_ms: u64,
    ) -> Worker {
        let (path, lease) = (self.path.to_str().expect("a plain path"), lease_ms.to_string());
        let resource = register.url();
        let arguments = ["--url", url, "--resource", &resource, "--process", name];
        let more = ["--history", path, "--lease-ms", &lease];
        Worker::spawn(WORKER, &[&arguments[..], &more[..]].concat())
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
