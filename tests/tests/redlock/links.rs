//! Several processes want one key of three real Redis servers, behind links that are cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use lock_core::{LockClient, LockOptions};
use tests::proxy::Proxy;
use tests::wait::eventually;
use tokio::task::JoinSet;

use crate::support::{Servers, url_of};

const CLIENTS: usize = 4;
const TURNS: usize = 150;

async fn client(proxies: &[Proxy]) -> LockClient {
    // Each client reaches the servers under other names.
    let url = url_of(proxies.iter().map(Proxy::addr), "name=links&lease_max=3s");
    LockClient::connect(&url).await.expect("servers that answer")
}

/// F41 (V1, V2, V6): one holds at a time, tokens grow, everybody is served, and nothing is left,
/// while the links to the servers are cut now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_behind_links_that_are_cut_take_turns_and_leave_nothing() {
    let servers = Servers::start(3);
    let (inside, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let ended = Arc::new(AtomicBool::new(false));
    let (mut workers, mut links) = (JoinSet::new(), Vec::new());
    for _ in 0..CLIENTS {
        let proxies: Vec<_> =
            servers.all.iter().map(|server| Proxy::start(server.addr())).collect();
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
    eventually("no key is left", || servers.left().is_empty()).await;
    drop((clients, links));
}
