//! A master, two replicas and the three sentinels that watch them.

use super::redis::{call_for, delete, in_line, is_free, knows_scripts, left, times};
use super::*;
use crate::redis::{RedisServer, SentinelSet};
use crate::scene::layout::BoxFuture;

/// A Redis master that sentinels name.
pub const SENTINEL: Kind = Kind {
    name: "Sentinel",
    store: "redis+sentinel",
    start: || {
        Box::pin(async {
            let layout = Sentinel { set: SentinelSet::start().await };
            layout.settled().await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Perhaps,
    can: redis::CAN,
    lacks: &[(Power::Clock, "a moved clock has the sentinels name another master")],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

#[derive(Debug)]
struct Sentinel {
    set: SentinelSet,
}

impl Sentinel {
    fn master(&self) -> &RedisServer {
        self.set.server(self.set.master())
    }
}

impl Layout for Sentinel {
    fn kind(&self) -> &'static Kind {
        &SENTINEL
    }

    fn url(&self, _scope: &str, _tempo: Tempo) -> String {
        self.set.url()
    }

    fn line_of(&self, _scope: &str, _tempo: Tempo) -> Line {
        let servers = (0..self.servers()).map(|server| self.set.server(server).addr());
        let addrs: Vec<_> = self.set.sentinel_addrs().into_iter().chain(servers).collect();
        let proxies = Line::renaming(&addrs);
        let sentinels: Vec<_> = proxies[..3].iter().map(|one| one.addr().to_string()).collect();
        let url = format!("redis+sentinel://{}/{}", sentinels.join(","), self.set.name());
        Line::new(url, proxies, false)
    }

    fn request(&self, _verb: Verb, key: &str) -> Match {
        call_for(key)
    }

    fn is_free(&self, _scope: &str, key: &str) -> bool {
        is_free(self.master(), key)
    }

    fn in_line(&self, _scope: &str, key: &str) -> usize {
        in_line(self.master(), key)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        left(self.master(), scope)
    }

    fn delete(&self, _scope: &str, key: &str) {
        delete(self.master(), key);
    }

    fn servers(&self) -> usize {
        3
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        vec![self.set.master()]
    }

    fn pause(&self, server: usize) {
        self.set.server(server).freeze();
    }

    fn resume(&self, server: usize) {
        self.set.server(server).thaw();
    }

    fn kill(&mut self, server: usize) {
        self.set.server_mut(server).kill();
    }

    fn restart(&mut self, servers: &[usize]) {
        servers.iter().for_each(|server| self.set.server_mut(*server).restart());
    }

    fn fail_over(&self, _key: &str) -> BoxFuture<'_, bool> {
        Box::pin(async {
            self.set.failover().await;
            true
        })
    }

    fn wipe(&self, server: usize) -> bool {
        self.set.server(server).command::<()>(&["FLUSHALL"]);
        true
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", SENTINEL.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.set.in_step(self.set.master(), 2).await;
            knows_scripts(self.set.url(), 1).await;
        })
    }
}
