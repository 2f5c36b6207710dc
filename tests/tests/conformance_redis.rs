//! The conformance suite over a real `redis-server`, in real time.

use std::time::Duration;

use lock_core::Mode;
use lock_core::redis::Redis;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use tests::redis::RedisServer;
use tests::scene::layouts::REDIS;

#[derive(Debug)]
struct OnRedis(RedisServer, Mode);

impl OnRedis {
    fn start(mode: Mode) -> Self {
        Self(RedisServer::start(), mode)
    }
}

impl Subject for OnRedis {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = Redis::connect(&self.0.url(), None).await;
            REDIS.checked(AnyBackend::new(backend.expect("a server that answers")))
        })
    }

    fn mode(&self) -> Mode {
        self.1
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { self.0.left_of_locks() })
    }
}

lock_core::conformance_tests!(
    [flavor = "multi_thread", worker_threads = 2],
    OnRedis::start(Mode::Exclusive)
);

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        OnRedis::start(Mode::Permit { of: 1 })
    );
}

#[tokio::test]
async fn one_server_passes_all_of_it_in_a_row() {
    conformance::all(&OnRedis::start(Mode::Exclusive)).await;
}
