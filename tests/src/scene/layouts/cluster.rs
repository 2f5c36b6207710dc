//! A Redis Cluster of three masters with a replica each.

use super::redis::{call_for, delete, in_line, is_free, knows_scripts, left, times};
use super::*;
use crate::redis::{RedisCluster, RedisServer};
use crate::scene::layout::BoxFuture;

/// A Redis Cluster, whose keys are spread over three masters.
pub const CLUSTER: Kind = Kind {
    name: "Cluster",
    store: "redis+cluster",
    start: || {
        Box::pin(async {
            let layout = Cluster { cluster: RedisCluster::start().await };
            layout.settled().await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Perhaps,
    can: &[
        "fencing",
        "fifo",
        "push",
        "shared",
        "permits",
        "election",
        "force_release",
        "force_acquire",
        "listing",
        "replicas",
    ],
    lacks: &[
        (Power::Clock, "a moved clock has the nodes take each other for dead"),
        (Power::Pause, "a replica takes over, which `cluster` tries"),
    ],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

#[derive(Debug)]
struct Cluster {
    cluster: RedisCluster,
}

impl Cluster {
    fn at(&self, key: &str) -> &RedisServer {
        self.cluster.server_of(key)
    }
}

impl Layout for Cluster {
    fn kind(&self) -> &'static Kind {
        &CLUSTER
    }

    fn url(&self, _scope: &str, _tempo: Tempo) -> String {
        self.cluster.url_of_all(None)
    }

    fn line_of(&self, _scope: &str, _tempo: Tempo) -> Line {
        let addrs: Vec<_> = self.cluster.nodes().iter().map(RedisServer::addr).collect();
        let proxies = Line::renaming(&addrs);
        let nodes: Vec<_> = proxies.iter().map(|one| one.addr().to_string()).collect();
        Line::new(format!("redis+cluster://{}", nodes.join(",")), proxies, false)
    }

    fn request(&self, _verb: Verb, key: &str) -> Match {
        call_for(key)
    }

    fn is_free(&self, _scope: &str, key: &str) -> bool {
        is_free(self.at(key), key)
    }

    fn in_line(&self, _scope: &str, key: &str) -> usize {
        in_line(self.at(key), key)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        self.cluster.masters().into_iter().flat_map(|node| left(node, scope)).collect()
    }

    fn delete(&self, _scope: &str, key: &str) {
        delete(self.at(key), key);
    }

    fn servers(&self) -> usize {
        self.cluster.nodes().len()
    }

    fn serving(&self, _scope: &str, key: &str) -> Vec<usize> {
        vec![self.cluster.owner(key)]
    }

    fn successors(&self, servers: &[usize]) -> Vec<usize> {
        servers.iter().map(|master| self.cluster.replica_of(*master)).collect()
    }

    fn pause(&self, server: usize) {
        self.cluster.node(server).freeze();
    }

    fn resume(&self, server: usize) {
        self.cluster.node(server).thaw();
    }

    fn kill(&mut self, server: usize) {
        self.cluster.kill(server);
    }

    fn restart(&mut self, servers: &[usize]) {
        servers.iter().for_each(|server| self.cluster.restart(*server));
    }

    fn fail_over(&self, key: &str) -> BoxFuture<'_, bool> {
        let (old, key) = (self.cluster.owner(key), key.to_owned());
        Box::pin(async move {
            self.cluster.node(self.cluster.replica_of(old)).command::<()>(&["CLUSTER", "FAILOVER"]);
            self.cluster.succeeded(old, &key).await;
            true
        })
    }

    fn wipe(&self, server: usize) -> bool {
        self.cluster.node(server).command::<()>(&["FLUSHALL"]);
        true
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", CLUSTER.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.cluster.settled().await;
            // So many that each master has some.
            knows_scripts(self.cluster.url(), 12).await;
        })
    }
}
