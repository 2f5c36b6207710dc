//! Three ZooKeeper servers that elect a leader.

use super::zookeeper::{CLOCK, claims, delete, left, options, request, times_of, url};
use super::*;
use crate::proxy::Proxy;
use crate::scene::layout::BoxFuture;
use crate::wait::eventually;
use crate::zookeeper::{ZooKeeperEnsemble, ZooKeeperServer};

/// An ensemble of three ZooKeeper servers.
pub const ENSEMBLE: Kind = Kind {
    name: "ZooKeeper ensemble",
    store: "zookeeper+ensemble",
    start: || {
        Box::pin(async {
            // Ticks are short for short sessions; servers have as long for each other as ever.
            let options = options().set("initLimit", "40").set("syncLimit", "20");
            let layout = Ensemble { ensemble: ZooKeeperEnsemble::with(SERVERS, &options) };
            layout.settled().await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Everything,
    can: super::zookeeper::CAN,
    lacks: &[CLOCK],
    fails: &[],
    patient: times_of(9_000, 30_000, LATE),
    steady: times_of(5_000, 30_000, LATE),
    brisk: times_of(3_000, 30_000, LATE),
};

const SERVERS: usize = 3;

/// In ticks: followers tell their leader of sessions now and then, and a client that hears nothing
/// goes on to be heard until it tries the next server.
const LATE: u64 = 6;

#[derive(Debug)]
struct Ensemble {
    ensemble: ZooKeeperEnsemble,
}

impl Ensemble {
    /// The leader: its knowledge is the latest.
    fn leader(&self) -> &ZooKeeperServer {
        self.ensemble.server(self.ensemble.leader())
    }

    fn each(&self) -> impl Iterator<Item = &ZooKeeperServer> {
        (0..SERVERS).map(|server| self.ensemble.server(server))
    }
}

impl Layout for Ensemble {
    fn kind(&self) -> &'static Kind {
        &ENSEMBLE
    }

    fn url(&self, scope: &str, tempo: Tempo) -> String {
        url(self.each().map(ZooKeeperServer::connect_string), scope, ENSEMBLE.times(tempo))
    }

    fn line_of(&self, scope: &str, tempo: Tempo) -> Line {
        let proxies: Vec<_> = self.each().map(|one| Proxy::zookeeper(one.addr())).collect();
        let hosts = proxies.iter().map(|proxy| proxy.addr().to_string());
        Line::new(url(hosts, scope, ENSEMBLE.times(tempo)), proxies, false)
    }

    fn request(&self, verb: Verb, key: &str) -> Match {
        request(verb, key)
    }

    fn is_free(&self, scope: &str, key: &str) -> bool {
        claims(self.leader(), scope, key).is_empty()
    }

    fn in_line(&self, scope: &str, key: &str) -> usize {
        claims(self.leader(), scope, key).len().saturating_sub(1)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        left(self.leader(), scope)
    }

    fn delete(&self, scope: &str, key: &str) {
        delete(self.leader(), scope, key);
    }

    fn servers(&self) -> usize {
        SERVERS
    }

    /// With these stopped, none is left that a majority follows.
    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        let leader = self.ensemble.leader();
        vec![leader, (leader + 1) % SERVERS]
    }

    fn pause(&self, server: usize) {
        self.ensemble.server(server).pause();
    }

    fn resume(&self, server: usize) {
        self.ensemble.server(server).resume();
    }

    fn kill(&mut self, server: usize) {
        self.ensemble.kill(server);
    }

    fn restart(&mut self, servers: &[usize]) {
        self.ensemble.start_again_all(servers);
    }

    fn skew_clock(&self, _by_ms: i64) {
        unreachable!("{:?}", ENSEMBLE.lacks(Power::Clock));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(eventually("all servers serve", || {
            let modes: Vec<_> = self.each().map(|server| server.mode()).collect();
            let are = |mode| modes.iter().filter(|it| it.as_deref() == Some(mode)).count();
            are("leader") == 1 && are("follower") == SERVERS - 1
        }))
    }
}
