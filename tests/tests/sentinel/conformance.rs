//! The conformance suite at the master that sentinels name, in real time.

use std::time::Duration;

use lock_core::redis::Redis;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use tests::redis::SentinelSet;
use tests::scene::layouts::SENTINEL;

#[derive(Debug)]
struct OnSentinel(SentinelSet);

impl Subject for OnSentinel {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = Redis::connect(&self.0.url(), None).await;
            SENTINEL.checked(AnyBackend::new(backend.expect("a master that answers")))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let master = self.0.server(self.0.master());
        let keys = master.keys().into_iter().filter(|key| !key.is_clock());
        let mut left: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
        // The sentinels have one of their own.
        let channels = master.channels().into_iter().filter(|name| !name.starts_with("__sentinel"));
        left.extend(channels.map(|channel| format!("channel {channel}")));
        Box::pin(async move { left })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_of_a_sentinel_set_passes_all_of_it_in_a_row() {
    conformance::all(&OnSentinel(SentinelSet::start().await)).await;
}
