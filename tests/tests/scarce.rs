//! Threads and descriptors that cannot be had: an error in time, nothing hangs, and all is well when
//! they are back.
//!
//! Each case is a process of its own, as it takes from itself what it has no more of: this program
//! again, with one test that does nothing else.

#![allow(clippy::disallowed_methods)]

use std::process::Command;
use std::time::{Duration, Instant};

use lock_core::{LockClient, LockOptions};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use tests::proxy::Proxy;
use tests::redis::RedisServer;
use tests::stalls::{self, Stopwatch};
use tests::support::ms;
use tests::wait::{eventually, within};
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};

/// How long a case may take: far above each wait in it.
const CASE_MAX: Duration = Duration::from_secs(40);

/// Has the test `case` run in a process of its own, at the store of this URL.
fn in_a_process(case: &str, url: &str) {
    in_a_process_with(case, url, &[], || {});
}

/// The same with further variables; looks at `meanwhile` now and then.
fn in_a_process_with(case: &str, url: &str, more: &[(&str, &str)], mut meanwhile: impl FnMut()) {
    let own = std::env::current_exe().expect("a path of our own");
    let mut child = Command::new(own)
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=2", case])
        .env("SCARCE_URL", url)
        .envs(more.iter().copied())
        .spawn()
        .expect("a process");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            break status;
        }
        if began.elapsed() > CASE_MAX {
            let _ = (child.kill(), child.wait());
            panic!("{case} hangs");
        }
        meanwhile();
        std::thread::sleep(ms(10));
    };
    assert!(status.success(), "{case}: {status}");
}

fn url() -> String {
    std::env::var("SCARCE_URL").expect("a store")
}

/// No more descriptors than there are, while this is there.
struct NoDescriptors(u64);

impl NoDescriptors {
    fn begin() -> Self {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        // The standard streams have these numbers, so none is free, whatever is closed meanwhile.
        setrlimit(Resource::RLIMIT_NOFILE, 3, hard).expect("less than before");
        Self(soft)
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        setrlimit(Resource::RLIMIT_NOFILE, self.0, hard).expect("as it was");
    }
}

/// No room for the stack of one more thread, while this is there.
struct NoThreads;

impl NoThreads {
    fn begin() -> Self {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages: u64 = pages.split(' ').next().and_then(|it| it.parse().ok()).expect("pages");
        // A stack takes 2 MiB; what else is asked for meanwhile takes less.
        let room = 1 << 20;
        setrlimit(Resource::RLIMIT_AS, pages * 4_096 + room, RLIM_INFINITY).expect("a limit");
        assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "there is a thread to be had");
        Self
    }
}

impl Drop for NoThreads {
    fn drop(&mut self) {
        setrlimit(Resource::RLIMIT_AS, RLIM_INFINITY, RLIM_INFINITY).expect("as it was");
    }
}

fn options() -> LockOptions {
    LockOptions::new().with_wait(ms(1_000)).with_lease(ms(5_000))
}

async fn client() -> LockClient {
    LockClient::builder(url()).defaults(options()).connect().await.expect("a client")
}

/// Locks that are asked for in vain, one after the other.
const TRIES: usize = 50;

/// A lock that cannot be looked after is refused within its budget, also a later one and a try; then
/// all is well.
async fn refused_in_time<T>(scarce: impl FnOnce() -> T) {
    let locks = client().await;
    // Before the shortage: it takes a thread.
    let began = Stopwatch::start();
    let shortage = scarce();
    // An answer that is there before anybody has looked for a thread takes luck.
    for _ in 0..TRIES {
        let error = locks.lock("k").acquire().await.expect_err("nobody would renew it");
        assert!(error.is_unavailable() || error.is_timeout(), "{error}");
    }
    assert!(locks.lock("k").try_acquire().await.is_err());
    drop(shortage);
    assert!(began.own() < ms(12_000), "{:?}", began.elapsed());
    let guard = locks.lock("k").wait(ms(9_000)).await.expect("a thread is there again");
    guard.release().await.expect("a release");
    assert!(locks.shutdown(ms(5_000)).await.complete);
}

#[tokio::test]
#[ignore = "a process of its own runs it"]
async fn first_lock_without_a_descriptor() {
    refused_in_time(NoDescriptors::begin).await;
}

#[tokio::test]
#[ignore = "a process of its own runs it"]
async fn first_lock_without_a_thread() {
    refused_in_time(NoThreads::begin).await;
}

/// A client whose session outlives what a busy machine takes: the clients beside it have one of 2 s.
async fn holder() -> LockClient {
    let url = url().replace("session=2s", "session=5s");
    LockClient::builder(url).defaults(options()).connect().await.expect("a client")
}

/// Other clients connect while there are no descriptors, and the hold of the first is renewed beside
/// them, and kept.
#[tokio::test]
#[ignore = "a process of its own runs it"]
async fn connect_without_a_descriptor() {
    let holder = holder().await;
    let guard = holder.lock("held").await.expect("a grant");
    // Once before the shortage: it takes a thread.
    stalls::begin();
    let shortage = NoDescriptors::begin();
    let renewals = holder.stats().renewals;
    while holder.stats().renewals < renewals + 2 {
        let began = Stopwatch::start();
        drop(LockClient::connect(&url()).await.expect_err("there is nothing to connect with"));
        assert!(began.own() < ms(8_000), "{:?}", began.elapsed());
        assert!(guard.is_held(), "the other one's connect took it along");
    }
    drop(shortage);
    let next = client().await;
    assert!(next.lock("held").try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a release");
}

/// A session that cannot get its connection back for want of a descriptor ends, and takes no other one
/// of the process along.
#[tokio::test]
#[ignore = "a process of its own runs it"]
async fn reconnect_without_a_descriptor() {
    let cut_url = std::env::var("SCARCE_CUT_URL").expect("a way that is cut");
    let cut = LockClient::builder(cut_url).defaults(options()).connect().await.expect("a client");
    let holder = holder().await;
    let (lost, guard) = (cut.lock("cut").await.unwrap(), holder.lock("held").await.unwrap());
    let shortage = NoDescriptors::begin();
    // No file could be made.
    std::fs::create_dir(std::env::var("SCARCE_READY").expect("a name")).expect("a folder");
    within("the loss", lost.lost()).await;
    // Beyond the time for which the library looks for its session, which is of 2 s.
    let renewals = holder.stats().renewals;
    eventually("renewals for three sessions", || holder.stats().renewals >= renewals + 4).await;
    assert!(guard.is_held(), "the session that was cut took it along");
    drop(shortage);
    guard.release().await.expect("a release");
    let again = cut.lock("cut").wait(ms(20_000)).await.expect("a session of its own again");
    again.release().await.expect("a release");
}

#[tokio::test]
#[ignore = "a process of its own runs it"]
async fn connect_without_a_route() {
    // A broadcast address: refused without a packet.
    let (cpu, began) = (tests::clock::cpu_ns(), Stopwatch::start());
    let url = "zookeeper://255.255.255.255:2181?session=2s";
    drop(LockClient::connect(url).await.expect_err("nobody is there"));
    assert!(began.own() < ms(8_000), "{:?}", began.elapsed());
    let spent_ms = (tests::clock::cpu_ns() - cpu) / 1_000_000;
    assert!(spent_ms < 500, "{spent_ms} ms of a processor");
}

#[tokio::test]
#[ignore = "a process of its own runs it"]
async fn connect_without_a_thread() {
    let shortage = NoThreads::begin();
    let connecting = LockClient::builder(url()).defaults(options()).connect();
    drop(connecting.await.expect_err("sessions have a thread"));
    drop(shortage);
    client().await.lock("k").await.expect("a grant").release().await.expect("a release");
}

/// The first lock of a client starts the thread that looks after its locks.
#[test]
fn a_first_lock_without_a_descriptor_or_a_thread_is_an_error_in_time() {
    let server = RedisServer::start();
    in_a_process("first_lock_without_a_descriptor", &server.url());
    in_a_process("first_lock_without_a_thread", &server.url());
}

/// The first client of ZooKeeper in a process starts the thread of its sessions.
#[test]
fn a_first_session_without_a_thread_is_an_error_and_the_next_one_is_well() {
    let server = ZooKeeperServer::start();
    in_a_process("connect_without_a_thread", &server.url());
}

/// Whatever fails at once inside of the client library of ZooKeeper is no loop in one poll.
#[test]
fn a_connect_that_fails_at_once_ends_in_time_and_takes_no_other_session_along() {
    let server = ZooKeeperServer::with(ZooKeeperOptions::new().tick_ms(500));
    let url = server.url() + "/locks?session=2s";
    in_a_process("connect_without_a_route", &url);
    in_a_process("connect_without_a_descriptor", &url);
    let (proxy, folder) = (Proxy::zookeeper(server.addr()), tempfile::tempdir().expect("a folder"));
    let (ready, cut_url) = (folder.path().join("ready"), proxy.url() + "/locks?session=2s");
    let more = [
        ("SCARCE_CUT_URL", cut_url.as_str()),
        ("SCARCE_READY", ready.to_str().expect("a path in UTF-8")),
    ];
    let mut is_cut = false;
    in_a_process_with("reconnect_without_a_descriptor", &url, &more, || {
        if !is_cut && ready.exists() {
            proxy.cut();
            is_cut = true;
        }
    });
}
