//! Three members of etcd that elect a leader.

use super::etcd::{CAN, CLOCK, PUSH, claims, delete, left, request, times_of, url};
use super::*;
use crate::etcd::{EtcdCluster, EtcdServer};
use crate::proxy::Proxy;
use crate::scene::layout::BoxFuture;
use crate::wait::eventually;

/// A leader that is new counts each lease anew, and clients look for it before that.
const LATE_MS: u64 = 4_000;

const MEMBERS: usize = 3;

/// A cluster of three.
pub const ETCD_CLUSTER: Kind = Kind {
    name: "etcd cluster",
    store: "etcd+cluster",
    start: || {
        Box::pin(async {
            Box::new(Cluster { cluster: EtcdCluster::start(MEMBERS) }) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Everything,
    can: CAN,
    lacks: &[CLOCK, PUSH],
    fails: &[],
    patient: times_of(9_000, LATE_MS),
    steady: times_of(5_000, LATE_MS),
    brisk: times_of(3_000, LATE_MS),
};

#[derive(Debug)]
struct Cluster {
    cluster: EtcdCluster,
}

impl Cluster {
    fn each(&self) -> impl Iterator<Item = &EtcdServer> {
        (0..MEMBERS).map(|member| self.cluster.member(member))
    }

    /// One that answers for a majority.
    fn any(&self) -> &EtcdServer {
        self.each().find(|member| member.is_well()).unwrap_or_else(|| self.cluster.member(0))
    }
}

impl Layout for Cluster {
    fn kind(&self) -> &'static Kind {
        &ETCD_CLUSTER
    }

    fn url(&self, scope: &str, tempo: Tempo) -> String {
        let hosts = self.each().map(|member| member.addr().to_string());
        url(hosts, scope, ETCD_CLUSTER.times(tempo))
    }

    fn line_of(&self, scope: &str, tempo: Tempo) -> Line {
        let proxies: Vec<_> = self.each().map(|member| Proxy::etcd(member.addr())).collect();
        let hosts = proxies.iter().map(|proxy| proxy.addr().to_string());
        Line::new(url(hosts, scope, ETCD_CLUSTER.times(tempo)), proxies, false)
    }

    fn request(&self, verb: Verb, key: &str) -> Match {
        request(verb, key)
    }

    fn is_free(&self, scope: &str, key: &str) -> bool {
        claims(self.any(), scope, key).is_empty()
    }

    fn in_line(&self, scope: &str, key: &str) -> usize {
        claims(self.any(), scope, key).len().saturating_sub(1)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        left(self.any(), scope)
    }

    fn delete(&self, scope: &str, key: &str) {
        delete(self.any(), scope, key);
    }

    fn servers(&self) -> usize {
        MEMBERS
    }

    /// With these stopped, none is left that a majority follows.
    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        let leader = self.cluster.leader();
        vec![leader, (leader + 1) % MEMBERS]
    }

    fn pause(&self, server: usize) {
        self.cluster.member(server).pause();
    }

    fn resume(&self, server: usize) {
        self.cluster.member(server).resume();
    }

    fn kill(&mut self, server: usize) {
        self.cluster.member_mut(server).kill();
    }

    fn restart(&mut self, servers: &[usize]) {
        for server in servers {
            self.cluster.member_mut(*server).relaunch();
        }
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", ETCD_CLUSTER.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        let all = || self.each().all(EtcdServer::is_well);
        Box::pin(eventually("all members serve", all))
    }
}
