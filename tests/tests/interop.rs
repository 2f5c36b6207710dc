//! Locks of other libraries and ours exclude each other on one key, both ways: redis-py's, redsync's,
//! rueidislock's, node-redlock's and rslock's.
//!
//! All keep the canonical layout, a random value under `SET key value NX PX`; ours is named
//! `lock:{K}` for the key `K`.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use lock_core::LockClient;
use tests::redis::RedisServer;
use tests::resource::patient;
use tests::wait::{eventually, within};
use tests::worker::Worker;

/// With a 0 between two segments, as it is in the keys of rueidislock.
const KEY: &str = "interop:0:a b";
const NAME: &str = "lock:{interop:0:a%20b}";

/// The redis-py side, driven as the Rust worker is.
fn redis_py(server: &RedisServer) -> Worker {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/redis_py.py");
    let [script, library] = [script, redis_py_folder()].map(|path| path.display().to_string());
    Worker::spawn("env", &[&format!("PYTHONPATH={library}"), "python3", &script, &server.url()])
}

/// Where `./tests/run` put redis-py, this time or earlier.
fn redis_py_folder() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    let kept = cache.and_then(|cache| {
        let folders = cache.join("lock-tests").read_dir().ok()?.flatten().map(|it| it.path());
        let is_it =
            |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("redis-py-").map(drop);
        folders.filter(|path| is_it(path).is_some()).max()
    });
    of("REDIS_PY_FOLDER").or(kept).expect("redis-py is not installed: run ./tests/run")
}

async fn client(server: &RedisServer) -> LockClient {
    LockClient::connect(&server.url()).await.expect("the server answers")
}

/// What was fetched of another library, and is named by this variable. `None` where nothing was:
/// `./tests/run --all` does so where Go, Node and Maven are installed.
fn named(variable: &str) -> Option<String> {
    let named = std::env::var(variable).ok();
    if named.is_none() {
        eprintln!("{variable} names no client: nothing was run with it");
    }
    named
}

/// A program of `tests/interop` at this server, by its words of a command line: `$` is the path that
/// the variable names.
fn fetched(server: &RedisServer, variable: &str, words: &[&str]) -> Option<Worker> {
    let (program, url) = (named(variable)?, server.url());
    let words = words.iter().map(|word| if *word == "$" { &*program } else { *word });
    let words: Vec<_> = words.chain([&*url]).collect();
    Some(Worker::spawn(words[0], &words[1..]))
}

async fn theirs_is_busy_for_us_until_it_is_released(server: &RedisServer, them: &mut Worker) {
    let locks = client(server).await;
    them.ask(&format!("acquire {NAME} 0 60000")).await.expect_success();
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    let error = locks.lock(KEY).wait(Duration::from_secs(3)).acquire().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(server.key(NAME).unwrap().kind, "string", "their value was overwritten");

    let acquire = tokio::spawn(locks.lock(KEY).wait(Duration::from_secs(9)).acquire());
    them.ask("release").await.expect_success();
    let guard = within("a key that nobody holds", acquire).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

async fn ours_is_busy_for_them_until_it_is_released(server: &RedisServer, them: &mut Worker) {
    let locks = client(server).await;
    let guard = locks.lock(KEY).await.unwrap();
    assert_eq!(them.ask(&format!("acquire {NAME} 0 60000")).await.error(), "busy");
    assert_eq!(them.ask(&format!("acquire {NAME} 50 60000")).await.error(), "busy");
    assert!(guard.is_held());
    them.send(&format!("acquire {NAME} 9000 60000"));
    guard.release().await.unwrap();
    them.reply().await.expect_success();
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    them.ask("release").await.expect_success();
}

async fn exclude_each_other(server: &RedisServer, them: &mut Worker) {
    theirs_is_busy_for_us_until_it_is_released(server, them).await;
    ours_is_busy_for_them_until_it_is_released(server, them).await;
}

#[tokio::test]
async fn redis_py_and_we_exclude_each_other() {
    let server = RedisServer::start();
    exclude_each_other(&server, &mut redis_py(&server)).await;
}

#[tokio::test]
async fn redsync_and_we_exclude_each_other() {
    let server = RedisServer::start();
    let Some(mut them) = fetched(&server, "GO_REDIS_CLIENT", &["$", "redsync"]) else { return };
    exclude_each_other(&server, &mut them).await;
}

/// With a majority of 1, a prefix that ends before the 0 of our key, and a name that begins behind it.
#[tokio::test]
async fn rueidislock_and_we_exclude_each_other() {
    let server = RedisServer::start();
    let Some(mut them) = fetched(&server, "GO_REDIS_CLIENT", &["$", "rueidislock"]) else { return };
    exclude_each_other(&server, &mut them).await;
}

#[tokio::test]
async fn node_redlock_and_we_exclude_each_other() {
    let server = RedisServer::start();
    let Some(mut them) = fetched(&server, "NODE_REDLOCK_CLIENT", &["node", "$"]) else { return };
    exclude_each_other(&server, &mut them).await;
}

#[tokio::test]
async fn a_key_of_a_killed_redis_py_is_ours_when_its_lease_ends() {
    let server = RedisServer::start();
    let (mut python, locks) = (redis_py(&server), client(&server).await);
    let taken = python.ask(&format!("acquire {NAME} 0 2000")).await;
    python.kill();
    let guard = within("the end of the lease", locks.lock(KEY).acquire()).await.unwrap();
    let waited_ns = tests::clock::now_ns() - taken.t_ns;
    // redis-py answered after the server had counted a part of the lease.
    assert!(waited_ns > 1_250_000_000, "granted {waited_ns} ns after redis-py took it for 2 s");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn both_take_turns_and_are_never_inside_together() {
    const ROUNDS: usize = 100;
    let server = RedisServer::start();
    let (mut python, locks) = (redis_py(&server), client(&server).await);
    python.send(&format!("contend {NAME} {ROUNDS} inside"));
    let mut connection = patient(&server.url()).await.unwrap();
    let mut overlaps = 0;
    for _ in 0..ROUNDS {
        let guard = within("our turn", locks.lock(KEY).acquire()).await.unwrap();
        let inside: i64 =
            redis::cmd("INCR").arg("inside").query_async(&mut connection).await.unwrap();
        overlaps += i64::from(inside != 1);
        redis::cmd("DECR").arg("inside").exec_async(&mut connection).await.unwrap();
        guard.release().await.unwrap();
        // Lets redis-py in, which polls each 5 ms and does not stand in our line.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let answer = within("redis-py's turns", python.reply()).await;
    assert_eq!((overlaps, answer.value), (0, Some(0.into())), "{:?}", answer.message);
}

/// Redisson, at this server.
fn redisson(server: &RedisServer) -> Option<Worker> {
    let jars = named("REDISSON_JARS")?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/redisson/Client.java");
    let [jars, program] = [format!("{jars}/*"), program.display().to_string()];
    Some(Worker::spawn("java", &["-cp", &jars, &program, &server.url()]))
}

/// An `RLock` is a hash of its own layout, so on one key neither takes it from the other, and neither
/// waits: who comes second has an error.
#[tokio::test]
async fn redisson_and_we_are_never_inside_together_and_an_error_tells_it() {
    let server = RedisServer::start();
    let Some(mut them) = redisson(&server) else { return };
    let locks = client(&server).await;
    them.ask(&format!("acquire {NAME} 0 60000")).await.expect_success();
    for wait in [Duration::ZERO, Duration::from_secs(9)] {
        let error = locks.lock(KEY).wait(wait).acquire().await.unwrap_err();
        assert!(error.is_unavailable() && !error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("is no lock"), "{error}");
    }
    assert_eq!(server.key(NAME).unwrap().kind, "hash", "their value was overwritten");
    them.ask("release").await.expect_success();
    let guard = locks.lock(KEY).await.unwrap();
    for wait in [0, 50] {
        let refused = them.ask(&format!("acquire {NAME} {wait} 60000")).await;
        assert!(refused.error() == "failed", "{refused:?}");
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
    them.ask(&format!("acquire {NAME} 0 60000")).await.expect_success();
    them.ask("release").await.expect_success();
}

/// In its layout each waits for the other, and is told of the other's release.
#[tokio::test]
async fn redisson_and_we_take_turns_in_its_layout() {
    const LOCK: &str = "order:42";
    let server = RedisServer::start();
    let Some(mut them) = redisson(&server) else { return };
    let url = format!("{}?layout=redisson", server.url());
    let locks = LockClient::connect(&url).await.expect("the server answers");
    let listen = || server.subscribers("redisson_lock__channel:{order:42}");
    for _ in 0..3 {
        eventually("nobody listens", || listen() == 0).await;
        them.ask(&format!("acquire {LOCK} 0 60000")).await.expect_success();
        assert!(locks.lock(LOCK).try_acquire().await.unwrap().is_none());
        let acquire = tokio::spawn(locks.lock(LOCK).wait(Duration::from_secs(9)).acquire());
        eventually("we listen", || listen() == 1).await;
        them.ask("release").await.expect_success();
        let guard = within("a key that nobody holds", acquire).await.unwrap().unwrap();
        assert!(them.ask(&format!("acquire {LOCK} 0 60000")).await.error() == "busy");
        eventually("who holds the key listens no more", || listen() == 0).await;
        // It sleeps until it is told, or until our lease has ended.
        them.send(&format!("acquire {LOCK} 60000 60000"));
        eventually("they listen", || listen() == 1).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        within("they are told", them.reply()).await.expect_success();
        assert!(locks.lock(LOCK).try_acquire().await.unwrap().is_none());
        them.ask("release").await.expect_success();
    }
    // Their fenced lock counts from 1. From our next grant on, each is above the last of the other.
    let token = async || {
        let guard = locks.lock(LOCK).await.unwrap();
        let token = guard.token().get();
        guard.release().await.unwrap();
        token
    };
    for round in 0..3 {
        let theirs = them.ask("fenced order:42").await.token();
        them.ask("release").await.expect_success();
        let ours = token().await;
        assert!(ours > theirs, "{ours} after {theirs}");
        let theirs = them.ask("fenced order:42").await.token();
        them.ask("release").await.expect_success();
        assert!(theirs > ours, "{theirs} after {ours}, round {round}");
    }
}

/// rslock, too: whoever moves from it runs both for a while.
#[tokio::test]
async fn rslock_and_we_exclude_each_other() {
    const LEASE: Duration = Duration::from_secs(60);
    let server = RedisServer::start();
    let locks = client(&server).await;
    let mut theirs = rslock::LockManager::new(vec![server.url()]);
    theirs.set_retry(1, Duration::from_millis(1));

    let lock = theirs.lock(NAME.as_bytes(), LEASE).await.expect("a free key");
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    let acquire = tokio::spawn(locks.lock(KEY).wait(Duration::from_secs(9)).acquire());
    theirs.unlock(&lock).await;
    let guard = within("a key that nobody holds", acquire).await.unwrap().unwrap();

    assert!(theirs.lock(NAME.as_bytes(), LEASE).await.is_err(), "it took our lock");
    guard.release().await.unwrap();
    let lock = theirs.lock(NAME.as_bytes(), LEASE).await.expect("a key that was given back");
    theirs.unlock(&lock).await;
}
