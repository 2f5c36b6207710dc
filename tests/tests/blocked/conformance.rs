//! The conformance suite, all of it polled by a conductor.

use std::time::Duration;

use lock_core::redis::Redis;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, as_conductor, conformance};
use tests::redis::RedisServer;
use tests::scene::layouts::REDIS;

#[derive(Debug)]
struct Conducted(RedisServer);

impl Subject for Conducted {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = Redis::connect(&self.0.url(), None).await;
            REDIS.checked(AnyBackend::new(backend.expect("a server that answers")))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let mut left: Vec<_> = self
            .0
            .keys()
            .iter()
            .filter(|key| !key.is_clock())
            .map(|key| format!("{key:?}"))
            .collect();
        left.extend(self.0.channels().into_iter().map(|channel| format!("channel {channel}")));
        Box::pin(async move { left })
    }
}

#[tokio::test]
async fn a_conductor_that_asks_for_everything_is_served_all_of_it() {
    let _here = as_conductor();
    conformance::all(&Conducted(RedisServer::start())).await;
}
