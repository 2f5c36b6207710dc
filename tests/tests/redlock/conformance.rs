//! The conformance suite over a quorum of three and of five real Redis servers, in real time.

use std::time::Duration;

use lock_core::redis::Redis;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, as_conductor, conformance};
use tests::redis::RedisServer;
use tests::scene::layouts::REDLOCK;

use crate::support::Servers;

#[derive(Debug)]
struct OnServers(Servers);

impl Subject for OnServers {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let quorum = Redis::quorum(&self.0.url(), Vec::new()).await;
            REDLOCK.checked(AnyBackend::new(quorum.expect("servers that answer")))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let mut left = self.0.left();
        let channels = self.0.all.iter().flat_map(RedisServer::channels);
        left.extend(channels.map(|channel| format!("channel {channel}")));
        Box::pin(async move { left })
    }
}

/// With members that nobody but the conductor asks for anything.
#[tokio::test]
async fn three_servers_pass_all_of_it_for_a_conductor() {
    let _here = as_conductor();
    let servers = Servers::start(3);
    servers.ready().await;
    conformance::all(&OnServers(servers)).await;
}

/// One after the other: eight servers at once are much for a small machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_and_five_pass_all_of_it_in_a_row() {
    for servers in [3, 5] {
        let servers = Servers::start(servers);
        servers.ready().await;
        conformance::all(&OnServers(servers)).await;
    }
}
