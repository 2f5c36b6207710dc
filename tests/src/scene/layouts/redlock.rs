//! Three Redis servers that know nothing of each other, as one quorum.

use std::time::Duration;

use lock_core::LockClient;
use lock_core::view::{Inspection, MemberState};

use super::redis::{call_for, delete, in_line, is_free, knows_scripts, left, times};
use super::*;
use crate::proxy::Proxy;
use crate::redis::{RedisOptions, RedisServer};
use crate::scene::layout::BoxFuture;

/// A quorum of three Redis servers.
pub const REDLOCK: Kind = Kind {
    name: "Redis quorum",
    store: "redlock",
    start: || {
        Box::pin(async {
            let start = || RedisServer::with(RedisOptions::new().movable_clock());
            let layout = Redlock { servers: vec![start(), start(), start()] };
            layout.settled().await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Nothing,
    can: OF_A_QUORUM,
    lacks: &[NO_SHARE],
    fails: &[],
    patient: times(LEASE_MAX_MS),
    steady: times(2_000),
    brisk: times(2_000),
};

/// The longest lease, for which a member that was started anew is kept away.
const LEASE_MAX_MS: u64 = 6_000;

#[derive(Debug)]
struct Redlock {
    servers: Vec<RedisServer>,
}

impl Redlock {
    fn each(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().filter(|server| server.is_running())
    }
}

/// Clients reach the servers by other names, so the quorum has one of its own.
fn url(hosts: impl Iterator<Item = String>) -> String {
    let hosts = hosts.collect::<Vec<_>>().join(",");
    format!("redlock://{hosts}?name=scenes&lease_max={LEASE_MAX_MS}ms")
}

impl Layout for Redlock {
    fn kind(&self) -> &'static Kind {
        &REDLOCK
    }

    fn url(&self, _scope: &str, _tempo: Tempo) -> String {
        url(self.servers.iter().map(|server| server.addr().to_string()))
    }

    fn line_of(&self, _scope: &str, _tempo: Tempo) -> Line {
        let proxies = self.servers.iter().map(|server| Proxy::start(server.addr()));
        let proxies: Vec<_> = proxies.collect();
        Line::new(url(proxies.iter().map(|one| one.addr().to_string())), proxies, true)
    }

    fn request(&self, _verb: Verb, key: &str) -> Match {
        call_for(key)
    }

    fn is_free(&self, _scope: &str, key: &str) -> bool {
        self.each().filter(|server| !is_free(server, key)).count() * 2 < self.servers.len()
    }

    fn in_line(&self, _scope: &str, key: &str) -> usize {
        self.each().map(|server| in_line(server, key)).max().unwrap_or(0)
    }

    fn left(&self, scope: &str) -> Vec<String> {
        self.each().flat_map(|server| left(server, scope)).collect()
    }

    fn delete(&self, _scope: &str, key: &str) {
        self.each().for_each(|server| delete(server, key));
    }

    fn servers(&self) -> usize {
        self.servers.len()
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        vec![0, 1]
    }

    fn pause(&self, server: usize) {
        self.servers[server].freeze();
    }

    fn resume(&self, server: usize) {
        self.servers[server].thaw();
    }

    fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    fn restart(&mut self, servers: &[usize]) {
        servers.iter().for_each(|server| self.servers[*server].restart());
    }

    fn wipe(&self, server: usize) -> bool {
        self.servers[server].command::<()>(&["FLUSHALL"]);
        true
    }

    fn skew_clock(&self, by_ms: i64) {
        self.servers.iter().for_each(|server| server.move_clock(by_ms));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let locks = LockClient::connect(&self.url("", Tempo::Patient)).await.expect("a client");
            repaired(&locks).await;
            knows_scripts(self.url("", Tempo::Patient), 1).await;
        })
    }
}

/// Waits until every member of a quorum grants.
pub(super) async fn repaired(locks: &LockClient) {
    let deadline = tokio::time::Instant::now() + 3 * Duration::from_millis(LEASE_MAX_MS);
    loop {
        // Members are seen to by clients that want something of them.
        let wait = Duration::from_millis(500);
        let lease = Duration::from_millis(900);
        let granted = locks.lock("settled").lease(lease).wait(wait).await;
        let seen = locks.inspect("settled").await;
        let ready =
            |seen: &Inspection| seen.members.iter().all(|one| one.state == MemberState::Ready);
        if granted.is_ok() && seen.as_ref().is_ok_and(ready) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "not settled: {granted:?} {seen:?}");
    }
}
