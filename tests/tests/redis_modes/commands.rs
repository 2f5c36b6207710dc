//! The cost of a key.

use std::collections::BTreeMap;

use lock_core::Mode;
use lock_core::backend::Backend;
use lock_core::redis::Redis;
use tests::redis::RedisServer;

use crate::support::*;

async fn takes_and_releases(store: &Redis, mode: Mode) {
    let mut asker = claim(store, mode);
    asker.takes().await;
    asker.releases().await;
}

/// Two requests, in every mode.
#[tokio::test]
async fn a_free_key_costs_two_requests_in_every_mode() {
    let server = RedisServer::start();
    let store = store(&server).await;
    for mode in [WRITER, READER, of(1), of(5), of(65_536)] {
        // The scripts are known then.
        takes_and_releases(&store, mode).await;
        let before = store.requests();
        for _ in 0..20 {
            takes_and_releases(&store, mode).await;
        }
        assert_eq!(store.requests() - before, 40, "{mode:?}");
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// The scripts of a key that only one holds at a time call nothing of several holders.
#[tokio::test]
async fn who_wants_a_key_alone_looks_at_nothing_of_those_who_would_share_it() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    takes_and_releases(&one, WRITER).await;
    let counted = || {
        let stats = server.command_stats();
        let own = ["config|resetstat", "info"];
        let calls = stats.0.into_iter().filter(|(name, _)| !own.contains(&name.as_str()));
        calls.map(|(name, stat)| (name, stat.calls)).collect::<BTreeMap<_, _>>()
    };
    server.reset_stats();
    takes_and_releases(&one, WRITER).await;
    let expected = [("del", 1), ("evalsha", 2), ("get", 1), ("set", 2), ("time", 1)];
    let expected = expected.map(|(name, calls)| (name.to_owned(), calls));
    assert_eq!(counted(), BTreeMap::from(expected));
    // Nor where it is handed on, renewed, and taken away.
    let (mut holder, mut next) = (claim(&one, WRITER), claim(&two, WRITER));
    holder.takes().await;
    next.waits().await;
    holder.renews().await;
    holder.releases().await;
    next.is_handed(&two).await;
    next.waits_for_nobody().await;
    assert!(counted().keys().all(|name| !name.starts_with('z')), "{:?}", counted());
    // And the eye of the test sees those calls.
    takes_and_releases(&one, READER).await;
    assert!(counted().contains_key("zadd"));
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Puts so many into the line that are alive, each of a client that listens.
fn stand(server: &RedisServer, mode: &str, count: u32) {
    let owners: Vec<String> = server.command(&["LRANGE", QUEUE, "0", "0"]);
    let session = owners[0].split_once(':').unwrap().1;
    let due = format!("9999999999999:60000{mode}");
    for n in 0..count {
        let owner = format!("{n:032x}:{session}");
        server.command::<u64>(&["HSET", DUE, &owner, &due]);
        server.command::<u64>(&["RPUSH", QUEUE, &owner]);
    }
}

/// A server does nothing else meanwhile.
#[tokio::test]
async fn no_call_looks_at_more_than_a_bounded_part_of_the_line() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let (mut holder, mut writer) = (claim(&store, WRITER), claim(&store, WRITER));
    holder.takes().await;
    writer.waits().await;
    stand(&server, "", 1_500);
    let calls = |name| server.command_stats().0.get(name).map_or(0, |stat| stat.calls);
    server.reset_stats();
    claim(&store, of(5)).waits().await;
    assert!(calls("hget") <= 1_001, "{}", calls("hget"));
    server.command::<()>(&["FLUSHALL"]);
}

/// Those who are left are let in as soon as anybody asks.
#[tokio::test]
async fn of_many_readers_in_line_each_call_lets_a_bounded_number_in_until_all_are() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let (mut holder, mut first) = (claim(&store, WRITER), claim(&store, READER));
    holder.takes().await;
    first.waits().await;
    stand(&server, ":shared", 600);
    let mut last = claim(&store, READER);
    last.waits().await;
    let calls = |name| server.command_stats().0.get(name).map_or(0, |stat| stat.calls);
    server.reset_stats();
    holder.releases().await;
    first.is_handed(&store).await;
    let held = || server.command::<u64>(&["ZCARD", HELD]);
    let let_in = held();
    assert!((2..=250).contains(&let_in) && calls("zadd") == let_in, "{let_in}");
    // Their leases end together, so the lock is not set for each of them.
    assert!(calls("pexpire") < 5, "{}", calls("pexpire"));
    last.waits().await;
    assert_eq!(held(), 2 * let_in);
    last.takes().await;
    assert_eq!((held(), keys(&server)), (602, vec![LOCK.to_owned(), HELD.to_owned()]));
    server.command::<()>(&["FLUSHALL"]);
}

impl Asker {
    async fn waits_for_nobody(&mut self) {
        assert!(!self.renews().await.wanted);
        self.releases().await;
    }
}
