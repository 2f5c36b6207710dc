//! The conformance suite, in real time.

use std::time::Duration;

use lock_core::redis::Redisson;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject};
use tests::redis::RedisServer;
use tests::scene::layouts::REDISSON;

#[derive(Debug)]
struct InItsLayout(RedisServer);

impl Subject for InItsLayout {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let url = format!("{}?layout=redisson", self.0.url());
            let backend = Redisson::connect(&url).await;
            REDISSON.checked(AnyBackend::new(backend.expect("a server that answers")))
        })
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
    InItsLayout(RedisServer::start())
);
