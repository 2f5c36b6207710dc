//! One ZooKeeper server; and what all layouts of ZooKeeper servers share.

use super::*;
use crate::proxy::Proxy;
use crate::scene::layout::BoxFuture;
use crate::support::ms;
use crate::zookeeper::{ZooKeeperOptions, ZooKeeperServer};

/// Sessions live 2 to 20 of these, and end up to one late.
const TICK_MS: u64 = 500;

/// The times of a session of so many milliseconds, and of a lease.
pub(super) const fn times(session: u64, lease: u64) -> Times {
    times_of(session, lease, 2)
}

/// The same where a session ends so many ticks late.
pub(super) const fn times_of(session: u64, lease: u64, late: u64) -> Times {
    let proven = session * 2 / 3;
    let ended = ms(session + late * TICK_MS);
    Times {
        lease: ms(lease),
        session: ms(session),
        lost_within: ms(if lease < proven { lease } else { proven }),
        freed_within: ended,
        handed_within: ended,
        skipped_within: ended,
        recheck: ms(session / 3),
    }
}

/// Servers whose sessions can be short, and which look for empty directories at once.
pub(super) fn options() -> ZooKeeperOptions {
    let tick = u32::try_from(TICK_MS).expect("short");
    let options = ZooKeeperOptions::new().tick_ms(tick).container_check_ms(100).no_force_sync();
    options.property("znode.container.maxPerMinute", "100000")
}

/// One ZooKeeper server.
pub const ZOOKEEPER: Kind = Kind {
    name: "ZooKeeper",
    store: "zookeeper",
    start: || {
        Box::pin(async {
            let layout = ZooKeeper { server: ZooKeeperServer::with(options()) };
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Everything,
    can: CAN,
    lacks: &[CLOCK],
    fails: &[],
    patient: times(9_000, 30_000),
    steady: times(5_000, 30_000),
    brisk: times(2_000, 30_000),
};

/// An ensemble can do the same.
pub(super) const CAN: &[&str] = &[
    "fencing",
    "fifo",
    "push",
    "shared",
    "permits",
    "election",
    "revocation",
    "force_release",
    "listing",
    "quorum",
];

pub(super) const CLOCK: (Power, &str) =
    (Power::Clock, "its sessions and tokens take no wall clock, and the JVM's is not ours to move");

#[derive(Debug)]
struct ZooKeeper {
    server: ZooKeeperServer,
}

/// Each scope has a tree of its own, so that all of its sessions are told apart too.
pub(super) fn url(hosts: impl Iterator<Item = String>, scope: &str, times: &Times) -> String {
    let hosts = hosts.collect::<Vec<_>>().join(",");
    format!("zookeeper://{hosts}/{scope}?session={}ms", times.session.as_millis())
}

impl Layout for ZooKeeper {
    fn kind(&self) -> &'static Kind {
        &ZOOKEEPER
    }

    fn url(&self, scope: &str, tempo: Tempo) -> String {
        url([self.server.connect_string()].into_iter(), scope, ZOOKEEPER.times(tempo))
    }

    fn line_of(&self, scope: &str, tempo: Tempo) -> Line {
        let proxy = Proxy::zookeeper(self.server.addr());
        let hosts = [proxy.addr().to_string()].into_iter();
        Line::new(url(hosts, scope, ZOOKEEPER.times(tempo)), vec![proxy], false)
    }

    fn request(&self, verb: Verb, key: &str) -> Match {
        request(verb, key)
    }

    fn is_free(&self, scope: &str, key: &str) -> bool {
        claims(&self.server, scope, key).is_empty()
    }

    fn in_line(&self, scope: &str, key: &str) -> usize {
        claims(&self.server, scope, key).len().saturating_sub(1)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        left(&self.server, scope)
    }

    fn delete(&self, scope: &str, key: &str) {
        delete(&self.server, scope, key);
    }

    fn servers(&self) -> usize {
        1
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        vec![0]
    }

    fn pause(&self, _server: usize) {
        self.server.pause();
    }

    fn resume(&self, _server: usize) {
        self.server.resume();
    }

    fn kill(&mut self, _server: usize) {
        self.server.kill();
    }

    fn restart(&mut self, _servers: &[usize]) {
        self.server.restart();
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", ZOOKEEPER.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        // A restart waits for it.
        Box::pin(std::future::ready(()))
    }
}

/// The writes of a claim: of its node, of the session's proof that it lives, and the deletion.
pub(super) fn request(verb: Verb, key: &str) -> Match {
    let node = |verb| Match::verb(verb).containing(format!("/{key}/")).containing("-lock-");
    match verb {
        // The first one finds no directory.
        Verb::Attempt => node("CREATE").after(1),
        Verb::Join => node("CREATE"),
        Verb::Renew => Match::verb("SETDATA").containing("/{lock-sessions}/"),
        Verb::Withdraw => node("DELETE"),
    }
}

/// The nodes of those who have or want a key, in their order: of the mutex, of the read-write lock,
/// and of permits.
pub(super) fn claims(server: &ZooKeeperServer, root: &str, key: &str) -> Vec<String> {
    let mut line = server.children(&format!("/{root}/{key}"));
    for folder in ["leases", "locks"] {
        if line.iter().any(|name| name == folder) {
            let within = server.children(&format!("/{root}/{key}/{folder}"));
            line.extend(within.iter().map(|name| format!("{folder}/{name}")));
        }
    }
    let kinds = ["-lock-", "__READ__", "__WRIT__", "-lease-"];
    line.retain(|name| kinds.iter().any(|kind| name.contains(kind)));
    line.sort_by_key(|name| name.rsplit_once('-').map(|(_, number)| number.to_owned()));
    line
}

/// Every node of a scope's tree but its root: keys, claims, sessions.
pub(super) fn left(server: &ZooKeeperServer, scope: &str) -> Vec<String> {
    let root = format!("/{scope}");
    let nodes = server.tree(&root).into_iter().filter(|node| node.path != root);
    nodes.map(|node| format!("{node:?}")).collect()
}

pub(super) fn delete(server: &ZooKeeperServer, root: &str, key: &str) {
    // A waiter for a permit has the key of the door, which is nobody's lock.
    let line = claims(server, root, key);
    if let Some(first) = line.iter().find(|name| !name.starts_with("locks/")) {
        server.delete(&format!("/{root}/{key}/{first}"));
    }
}
