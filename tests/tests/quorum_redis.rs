//! Several processes want one key of three real Redis servers, behind links that are cut.

#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use lock_core::backend::Redis;
use lock_core::quorum::Quorum;
use lock_core::{LockClient, LockOptions};
use tests::proxy::Proxy;
use tests::redis::RedisServer;
use tests::wait::eventually;
use tokio::task::JoinSet;

const CLIENTS: usize = 4;
const TURNS: usize = 150;

async fn client(proxies: &[Proxy]) -> LockClient {
    let mut members = Vec::new();
    for proxy in proxies {
        let url = format!("redis://{}", proxy.addr());
        members.push(Redis::connect(&url, None).await.expect("a server that answers"));
    }
    LockClient::with_backend(Quorum::new(members).expect("three"))
}

/// F41 (V1, V2, V6): one holds at a time, tokens grow, everybody is served, and nothing is left,
/// while the links to the servers are cut now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_behind_links_that_are_cut_take_turns_and_leave_nothing() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let (inside, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let ended = Arc::new(AtomicBool::new(false));
    let (mut workers, mut links) = (JoinSet::new(), Vec::new());
    for _ in 0..CLIENTS {
        let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let locks = client(&proxies).await;
        links.push(proxies);
        let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
        workers.spawn(async move {
            let options = LockOptions::new()
                .with_wait(Duration::from_secs(30))
                .with_lease(Duration::from_secs(3));
            let mut turns = 0;
            while turns < TURNS {
                let Ok(guard) = locks.lock("k").options(options).await else { continue };
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two holders");
                let token = guard.token().get();
                assert!(last.swap(token, SeqCst) < token, "token {token}");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..4))).await;
                assert!(guard.is_held(), "a lease of 3 s");
                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                // What a cut link does to the answer is no matter here.
                drop(guard.release().await);
                turns += 1;
            }
            locks
        });
    }
    let trouble = {
        let ended = Arc::clone(&ended);
        tokio::spawn(async move {
            while !ended.load(SeqCst) {
                links[fastrand::usize(..CLIENTS)][fastrand::usize(..3)].cut();
                tokio::time::sleep(Duration::from_millis(fastrand::u64(20..80))).await;
            }
            links
        })
    };
    let served = tokio::time::timeout(Duration::from_secs(120), workers.join_all()).await;
    let clients = served.expect("everybody is served in two minutes");
    ended.store(true, SeqCst);
    let links = trouble.await.expect("no panic");
    let left = || {
        let keys = servers.iter().flat_map(RedisServer::keys);
        keys.filter(|key| !key.name.ends_with(":fence")).count()
    };
    eventually("no key is left", || left() == 0).await;
    drop((clients, links));
}
