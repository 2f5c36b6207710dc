//! Checks when a client connects.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::redis::{RedisOptions, RedisServer};
use tests::stalls::Stopwatch;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::support::*;

/// Keeps the text of every event at `warn` and above.
#[derive(Debug, Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

struct Line(String);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().target()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// F29 (V8): a server that may evict a held lock is warned of at connect, by the name of its
/// policy; one that cannot is not.
#[tokio::test]
async fn a_server_that_may_evict_a_lock_is_warned_of_at_connect() {
    let room = 1 << 30;
    for (options, warned) in [
        (RedisOptions::new().maxmemory(room, "volatile-ttl"), true),
        (RedisOptions::new().maxmemory(room, "allkeys-lru"), true),
        (RedisOptions::new().maxmemory(room, "noeviction"), false),
        (RedisOptions::new().maxmemory(0, "allkeys-lru"), false),
    ] {
        let server = RedisServer::with(options.clone());
        let warnings = Warnings::default();
        let kept = tracing::subscriber::set_default(warnings.clone());
        let locks = connect(&server.url(), ms(1_000)).await;
        drop(kept);
        let told = warnings.all();
        let ours: Vec<_> = told.iter().filter(|line| line.starts_with("lock_core")).collect();
        assert_eq!(ours.len(), usize::from(warned), "{options:?}: {told:?}");
        assert!(ours.iter().all(|line| line.contains("policy=") && line.contains("noeviction")));
        nothing_left(&server, [locks]).await;
    }
}

/// A server from before RESP3, that knows no `HELLO`.
fn old_server() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut answers = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                // Each request begins with its number of words.
                if line.starts_with('*') {
                    let _ = answers.write_all(b"-ERR unknown command `HELLO`, with args\r\n");
                }
            }
        }
    });
    url
}

/// V8: a server that is too old is refused, with the version that is needed.
#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_the_version_that_is_needed() {
    let error = LockClient::connect(&old_server()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Store(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("too old") && text.contains("Redis 6"), "{text}");
}

/// V8: a server that is not there, or that never says a word, is an error within 2 s, not a hang.
#[tokio::test]
async fn a_server_that_does_not_answer_fails_the_connect_in_time() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let gone = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let start = Stopwatch::start();
        let error = LockClient::connect(&format!("redis://{address}")).await.unwrap_err();
        assert!(start.own() < ms(2_000) + SLACK, "{:?}", start.elapsed());
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert!(fault.is_transient(), "{error}");
    }
}

/// A unix socket serves like a port.
#[tokio::test]
async fn a_unix_socket_serves_locks_and_pushes() {
    let server = RedisServer::with(RedisOptions::new().unix_socket());
    let url = format!("redis+unix://{}", server.unix_socket().unwrap().display());
    let a = connect(&url, ms(30_000)).await;
    let b = connect(&server.url(), ms(30_000)).await;
    let guard = b.lock("k").await.unwrap();
    let waiting = tokio::spawn(a.lock("k").acquire());
    line_of(&server, "k", 1).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(a.stats().handoffs_remote, 1);
    let other = connect(&format!("{url}?db=3"), ms(30_000)).await;
    let elsewhere = other.lock("k").await.unwrap();
    a.lock("k").try_acquire().await.unwrap().expect("another database").release().await.unwrap();
    elsewhere.release().await.unwrap();
    nothing_left(&server, [a, b, other]).await;
}

/// The shortest lease that Redis can renew in time is a bound: the client tells it before anything
/// is sent.
#[tokio::test]
async fn a_lease_under_100_ms_is_refused_by_name() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(2_000)).await;
    assert_eq!(locks.capabilities().lease_min, ms(100));
    let error = locks.lock("k").lease(ms(99)).await.unwrap_err();
    assert!(error.is_rejected() && error.to_string().contains("lease is 99ms"), "{error}");
    locks.lock("k").lease(ms(100)).await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}
