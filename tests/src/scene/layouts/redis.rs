//! One Redis server, with locks of our own layout or of Redisson's; and what all layouts of Redis
//! servers share.

use std::time::Duration;

use lock_core::{LockClient, LockOptions};

use super::*;
use crate::proxy::Proxy;
use crate::redis::{KeyInfo, RedisOptions, RedisServer};
use crate::scene::layout::BoxFuture;
use crate::support::{CLAIM_LEASE, RECHECK, ms};
use crate::wait::eventually;

/// The times of a lease of so many milliseconds.
pub(super) const fn times(lease: u64) -> Times {
    Times {
        lease: ms(lease),
        session: Duration::ZERO,
        lost_within: ms(lease),
        freed_within: ms(lease).saturating_add(RECHECK),
        handed_within: CLAIM_LEASE.saturating_add(RECHECK),
        // Nobody listens for them any more.
        skipped_within: Duration::ZERO,
        recheck: RECHECK,
    }
}

/// One Redis server, which keeps nothing on its disk.
pub const REDIS: Kind = Kind {
    name: "Redis",
    store: "redis",
    start: || {
        Box::pin(async {
            let layout = Redis::start(&REDIS, Written::Own).await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    keeps: Keeps::Nothing,
    can: CAN,
    lacks: &[],
    fails: &[],
    patient: times(30_000),
    steady: times(2_000),
    brisk: times(2_000),
};

/// One Redis server, on which Redisson takes the same locks.
pub const REDISSON: Kind = Kind {
    name: "Redisson's layout",
    store: "redis+redisson",
    start: || {
        Box::pin(async {
            let layout = Redis::start(&REDISSON, Written::Redisson).await;
            Box::new(layout) as Box<dyn Layout>
        })
    },
    can: &["fencing", "push", "force_release", "replicas"],
    lacks: &[(Power::Share, "an `RLock` has one holder")],
    ..REDIS
};

/// A master behind sentinels can do the same.
pub(super) const CAN: &[&str] = &[
    "fencing",
    "fifo",
    "push",
    "shared",
    "permits",
    "election",
    "force_release",
    "force_acquire",
    "listing",
    "quorum",
    "replicas",
];

#[derive(Debug)]
struct Redis {
    server: RedisServer,
    kind: &'static Kind,
    written: Written,
}

/// Whose layout locks have.
#[derive(Debug, Clone, Copy)]
enum Written {
    Own,
    Redisson,
}

impl Written {
    fn url(self, server: String) -> String {
        match self {
            Self::Own => server,
            Self::Redisson => format!("{server}?layout=redisson"),
        }
    }
}

impl Redis {
    async fn start(kind: &'static Kind, written: Written) -> Self {
        let server = RedisServer::with(RedisOptions::new().movable_clock());
        let layout = Self { server, kind, written };
        layout.settled().await;
        layout
    }
}

impl Layout for Redis {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn url(&self, _scope: &str, _tempo: Tempo) -> String {
        self.written.url(self.server.url())
    }

    fn line_of(&self, _scope: &str, _tempo: Tempo) -> Line {
        let proxy = Proxy::start(self.server.addr());
        Line::new(self.written.url(proxy.url()), vec![proxy], false)
    }

    /// In both layouts there is a name with these words in it.
    fn request(&self, _verb: Verb, key: &str) -> Match {
        call_for(key)
    }

    fn is_free(&self, _scope: &str, key: &str) -> bool {
        match self.written {
            Written::Own => is_free(&self.server, key),
            Written::Redisson => self.server.command::<u64>(&["EXISTS", key]) == 0,
        }
    }

    fn in_line(&self, _scope: &str, key: &str) -> usize {
        match self.written {
            Written::Own => in_line(&self.server, key),
            Written::Redisson => {
                self.server.command(&["ZCARD", &format!("lock:{{{key}}}:waiting")])
            }
        }
    }

    fn left(&self, scope: &str) -> Vec<String> {
        let mut left = left(&self.server, scope);
        if let Written::Redisson = self.written {
            let keys = self.server.keys().into_iter();
            let ours = keys.filter(|key| key.name.starts_with(&format!("{scope}-")));
            left.extend(ours.map(|key| format!("{key:?}")));
        }
        left
    }

    fn delete(&self, _scope: &str, key: &str) {
        match self.written {
            Written::Own => delete(&self.server, key),
            Written::Redisson => self.server.command(&["DEL", key]),
        }
    }

    fn servers(&self) -> usize {
        1
    }

    fn serving(&self, _scope: &str, _key: &str) -> Vec<usize> {
        vec![0]
    }

    fn pause(&self, _server: usize) {
        self.server.freeze();
    }

    fn resume(&self, _server: usize) {
        self.server.thaw();
    }

    fn kill(&mut self, _server: usize) {
        self.server.kill();
    }

    fn restart(&mut self, _servers: &[usize]) {
        self.server.restart();
    }

    fn wipe(&self, _server: usize) -> bool {
        self.server.command::<()>(&["FLUSHALL"]);
        true
    }

    fn skew_clock(&self, by_ms: i64) {
        self.server.move_clock(by_ms);
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(knows_scripts(self.written.url(self.server.url()), 1))
    }
}

/// The next call of a script for `key`: at these servers each verb is one.
pub(super) fn call_for(key: &str) -> Match {
    Match::verb("EVALSHA").containing(format!("lock:{{{key}}}"))
}

pub(super) fn is_free(server: &RedisServer, key: &str) -> bool {
    server.command::<u64>(&["EXISTS", &format!("lock:{{{key}}}")]) == 0
}

pub(super) fn in_line(server: &RedisServer, key: &str) -> usize {
    server.command(&["LLEN", &format!("lock:{{{key}}}:queue")])
}

pub(super) fn delete(server: &RedisServer, key: &str) {
    server.command::<()>(&["DEL", &format!("lock:{{{key}}}")]);
}

/// The keys of this scope that are left at a server.
pub(super) fn left(server: &RedisServer, scope: &str) -> Vec<String> {
    let ours = format!("lock:{{{scope}-");
    let keys = server.keys().into_iter().filter(|key| key.name.starts_with(&ours));
    keys.filter(|key| !stays(key)).map(|key| format!("{key:?}")).collect()
}

/// Whether docs say that it stays: a clock, or the counter of a key at a member of a quorum.
fn stays(key: &KeyInfo) -> bool {
    key.is_clock() || (key.name.ends_with(":fence") && key.ttl_ms.is_some())
}

/// Takes `keys` keys, each in all the ways that there are, so that servers know every script and
/// a trap catches no request that is refused for its script.
pub(super) async fn knows_scripts(url: String, keys: usize) {
    let options = LockOptions::new().with_lease(ms(300)).with_wait(ms(9_000));
    let connect = || LockClient::builder(&url).defaults(options).connect();
    let (one, two) = (connect().await.expect("a client"), connect().await.expect("a client"));
    for key in 0..keys {
        let key = format!("settled-{key}");
        let held = one.lock(&key).await.expect("a grant");
        assert!(two.lock(&key).try_acquire().await.expect("an answer").is_none());
        let renewals = one.stats().renewals;
        eventually("a renewal", || one.stats().renewals > renewals || !held.is_held()).await;
        let next = tokio::spawn(two.lock(&key).acquire());
        // On a busy machine the first one's lease may be over by then.
        eventually("a waiter", || two.stats().waiters == 1 || next.is_finished()).await;
        // One that lost its lease on a busy machine has nothing to give back.
        let _ = held.release().await;
        let _ = next.await.expect("no panic").expect("a grant").release().await;
        drop(one.lock(&key).await.expect("a grant"));
    }
    for client in [one, two] {
        eventually("no key is busy", || client.stats().keys == 0).await;
    }
}
