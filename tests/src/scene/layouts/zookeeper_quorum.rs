//! Three ZooKeeper servers that know nothing of each other, as one quorum.

use lock_core::LockClient;

use super::redlock::repaired;
use super::zookeeper::{CLOCK, claims, delete, options, request, times};
use super::*;
use crate::proxy::Proxy;
use crate::scene::layout::BoxFuture;
use crate::zookeeper::ZooKeeperServer;

/// A quorum of three ZooKeeper servers.
pub const ZOOKEEPER_QUORUM: Kind = Kind {
    name: "ZooKeeper quorum",
    store: "zookeeper+quorum",
    start: || {
        Box::pin(async {
            let start = || std::thread::spawn(|| ZooKeeperServer::with(options()));
            let starting = [start(), start(), start()];
            let servers = starting.map(|server| server.join().expect("a server")).into();
            let layout = ZooKeeperQuorum { servers };
            layout.settled().await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Everything,
    can: OF_A_QUORUM,
    lacks: &[NO_SHARE, CLOCK],
    fails: &[],
    patient: times(9_000, LEASE_MAX_MS),
    steady: times(5_000, LEASE_MAX_MS),
    brisk: times(3_000, LEASE_MAX_MS),
};

/// The longest lease, for which a new quorum waits before it grants.
const LEASE_MAX_MS: u64 = 6_000;

/// The tree of all scopes: a quorum is one of a tree, and a new one waits.
const ROOT: &str = "scenes";

#[derive(Debug)]
struct ZooKeeperQuorum {
    servers: Vec<ZooKeeperServer>,
}

impl ZooKeeperQuorum {
    fn each(&self) -> impl Iterator<Item = &ZooKeeperServer> {
        self.servers.iter().filter(|server| server.mode().is_some())
    }
}

fn url(hosts: impl Iterator<Item = String>, tempo: Tempo) -> String {
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let session = ZOOKEEPER_QUORUM.times(tempo).session.as_millis();
    let query = format!("session={session}ms&name=scenes&lease_max={LEASE_MAX_MS}ms");
    format!("zookeeper+quorum://{hosts}/{ROOT}?{query}")
}

impl Layout for ZooKeeperQuorum {
    fn kind(&self) -> &'static Kind {
        &ZOOKEEPER_QUORUM
    }

    fn url(&self, _scope: &str, tempo: Tempo) -> String {
        url(self.servers.iter().map(ZooKeeperServer::connect_string), tempo)
    }

    fn line_of(&self, _scope: &str, tempo: Tempo) -> Line {
        let proxies = self.servers.iter().map(|server| Proxy::zookeeper(server.addr()));
        let proxies: Vec<_> = proxies.collect();
        Line::new(url(proxies.iter().map(|one| one.addr().to_string()), tempo), proxies, true)
    }

    fn request(&self, verb: Verb, key: &str) -> Match {
        request(verb, key)
    }

    fn is_free(&self, _scope: &str, key: &str) -> bool {
        let held = self.each().filter(|server| !claims(server, ROOT, key).is_empty()).count();
        held * 2 < self.servers.len()
    }

    fn in_line(&self, _scope: &str, key: &str) -> usize {
        let waiting = |server| claims(server, ROOT, key).len().saturating_sub(1);
        self.each().map(waiting).max().unwrap_or(0)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        let ours = format!("{scope}-");
        let keys = |server: &ZooKeeperServer| server.children(&format!("/{ROOT}"));
        self.each().flat_map(keys).filter(|key| key.starts_with(&ours)).collect()
    }

    fn delete(&self, _scope: &str, key: &str) {
        self.each().for_each(|server| delete(server, ROOT, key));
    }

    fn servers(&self) -> usize {
        self.servers.len()
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        vec![0, 1]
    }

    fn pause(&self, server: usize) {
        self.servers[server].pause();
    }

    fn resume(&self, server: usize) {
        self.servers[server].resume();
    }

    fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    fn restart(&mut self, servers: &[usize]) {
        servers.iter().for_each(|server| self.servers[*server].restart());
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", ZOOKEEPER_QUORUM.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let locks = LockClient::connect(&self.url("", Tempo::Patient)).await.expect("a client");
            repaired(&locks).await;
        })
    }
}
