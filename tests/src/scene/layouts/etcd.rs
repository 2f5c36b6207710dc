//! One member of etcd; and what all layouts of etcd share.

use super::*;
use crate::etcd::EtcdServer;
use crate::proxy::Proxy;
use crate::scene::layout::BoxFuture;
use crate::support::ms;
use crate::wait::eventually;

/// A lease ends up to so much late: the leader looks twice a second.
const LATE_MS: u64 = 1_000;

/// The times of a session of so many milliseconds.
pub(super) const fn times(session: u64) -> Times {
    times_of(session, LATE_MS)
}

/// The same where a session ends so much late.
pub(super) const fn times_of(session: u64, late: u64) -> Times {
    let ended = ms(session + late);
    Times {
        lease: ms(30_000),
        session: ms(session),
        lost_within: ms(session),
        freed_within: ended,
        handed_within: ended,
        skipped_within: ended,
        recheck: ms(session / 3),
    }
}

/// A cluster of one.
pub const ETCD: Kind = Kind {
    name: "etcd",
    store: "etcd",
    start: || Box::pin(async { Box::new(Etcd { server: EtcdServer::start() }) as Box<dyn Layout> }),
    keeps: Keeps::Everything,
    can: CAN,
    lacks: &[CLOCK, PUSH],
    fails: &[],
    patient: times(9_000),
    steady: times(5_000),
    brisk: times(2_000),
};

/// A cluster can do the same.
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
];

pub(super) const CLOCK: (Power, &str) =
    (Power::Clock, "its leases and tokens take no wall clock, and Go's is not ours to move");

pub(super) const PUSH: (Power, &str) =
    (Power::Push, "what a watch tells comes on a stream of HTTP/2, as answers do");

#[derive(Debug)]
struct Etcd {
    server: EtcdServer,
}

/// Each scope has keys of its own, so that all of its sessions are told apart too.
pub(super) fn url(hosts: impl Iterator<Item = String>, scope: &str, times: &Times) -> String {
    let hosts = hosts.collect::<Vec<_>>().join(",");
    format!("etcd://{hosts}/{scope}?session={}s", times.session.as_secs())
}

impl Layout for Etcd {
    fn kind(&self) -> &'static Kind {
        &ETCD
    }

    fn url(&self, scope: &str, tempo: Tempo) -> String {
        url([self.server.addr().to_string()].into_iter(), scope, ETCD.times(tempo))
    }

    fn line_of(&self, scope: &str, tempo: Tempo) -> Line {
        let proxy = Proxy::etcd(self.server.addr());
        let hosts = [proxy.addr().to_string()].into_iter();
        Line::new(url(hosts, scope, ETCD.times(tempo)), vec![proxy], false)
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
        self.server.relaunch();
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", ETCD.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(eventually("etcd serves", || self.server.is_well()))
    }
}

/// A claim is put into the line, and deleted; a holder reads the line when it renews.
pub(super) fn request(verb: Verb, key: &str) -> Match {
    let line = format!("/{key}/");
    match verb {
        Verb::Attempt | Verb::Join => Match::verb("PUT").containing(line),
        Verb::Renew => Match::verb("RANGE").containing(line),
        Verb::Withdraw => Match::verb("DELETE").containing(line),
    }
}

/// The keys of those who have or want a key, in their order.
pub(super) fn claims(server: &EtcdServer, scope: &str, key: &str) -> Vec<String> {
    server.keys(&format!("{scope}/{key}/")).into_iter().map(|found| found.key).collect()
}

/// Every key of a scope: claims and sessions.
pub(super) fn left(server: &EtcdServer, scope: &str) -> Vec<String> {
    server.keys(&format!("{scope}/")).iter().map(|found| format!("{found:?}")).collect()
}

pub(super) fn delete(server: &EtcdServer, scope: &str, key: &str) {
    if let Some(first) = claims(server, scope, key).first() {
        server.delete(first);
    }
}
