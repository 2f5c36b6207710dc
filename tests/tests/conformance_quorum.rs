//! The conformance suite over a quorum of three and of five real Redis servers, in real time.

use std::time::Duration;

use lock_core::backend::Redis;
use lock_core::quorum::Quorum;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use tests::redis::RedisServer;

#[derive(Debug)]
struct OnServers(Vec<RedisServer>);

impl OnServers {
    fn start(servers: usize) -> Self {
        Self((0..servers).map(|_| RedisServer::start()).collect())
    }
}

impl Subject for OnServers {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let mut members = Vec::new();
            for server in &self.0 {
                let member = Redis::connect(&server.url(), None).await;
                members.push(member.expect("a server that answers"));
            }
            AnyBackend::new(Quorum::new(members).expect("three or more"))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let all = self.0.iter().flat_map(RedisServer::keys);
        let keys = all.filter(|key| !key.name.ends_with(":fence"));
        let mut left: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
        let channels = self.0.iter().flat_map(RedisServer::channels);
        left.extend(channels.map(|channel| format!("channel {channel}")));
        Box::pin(async move { left })
    }
}

/// One after the other: eight servers at once are much for a small machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_and_five_pass_all_of_it_in_a_row() {
    for servers in [3, 5] {
        conformance::all(&OnServers::start(servers)).await;
    }
}
