//! F41: one of three killed, frozen, or back without its data, while clients contend; two of three
//! away.

use std::time::Instant;

use lock_core::{LockClient, LockGuard, LockOptions};
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};
use tests::zookeeper::ZooKeeperServer;

use crate::contention::*;
use crate::support::*;

/// F41 (V1, V2, V4, V6): and the server that was killed is one of a majority again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_go_on_while_any_one_server_is_killed_and_started_again() {
    let mut servers = Servers::start().await;
    let contention = Contention::start(&servers).await;
    servers.all[1].kill();
    contention.goes_on("with one killed").await;
    servers.all[1].restart();
    contention.goes_on("with one started again").await;
    servers.all[2].kill();
    contention.goes_on("with another killed").await;
    servers.all[2].restart();
    contention.end().await;
    eventually("nothing is left", || servers.left().is_empty()).await;
}

/// F41 (V1, V2, V4, V6): requests to it are not answered, and are carried out late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_go_on_while_any_one_server_is_frozen() {
    let servers = Servers::start().await;
    let contention = Contention::start(&servers).await;
    servers.all[0].pause();
    let frozen = Instant::now();
    while frozen.elapsed() < SHORT * 3 / 2 {
        contention.goes_on("with one frozen, for longer than its sessions last").await;
    }
    servers.all[0].resume();
    contention.goes_on("with one thawed").await;
    servers.all[1].pause();
    contention.goes_on("with another frozen").await;
    servers.all[1].resume();
    contention.end().await;
    eventually("nothing is left", || servers.left().is_empty()).await;
}

/// F41 (V1, V2, V4, V6): it grants nothing until the longest lease is over and the others were
/// asked how far they are; then it is one of a majority again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_go_on_while_a_server_comes_back_without_its_data() {
    let mut servers = Servers::start().await;
    let contention = Contention::start(&servers).await;
    let lost = Instant::now();
    servers.all[0].restart_empty();
    contention.goes_on("with one that lost its data").await;
    eventually("it grants again", || !servers.all[0].children("/{lock-tokens}").is_empty()).await;
    assert!(lost.elapsed() >= LEASE, "after {:?}", lost.elapsed());
    servers.all[1].kill();
    contention.goes_on("with one that came back, and one killed").await;
    servers.all[1].restart();
    contention.end().await;
    eventually("nothing is left", || servers.left().is_empty()).await;
}

fn options() -> LockOptions {
    LockOptions::new().with_lease(LEASE).with_wait(ms(2_000))
}

/// Tries until a majority serves.
async fn granted(locks: &LockClient) -> LockGuard {
    let trying = async {
        loop {
            if let Ok(guard) = locks.lock("held").options(options()).await {
                return guard;
            }
        }
    };
    within("a grant", trying).await
}

/// F41 (V3, V4, V8): who held the key is told, who wants it is told that there is no majority, and
/// later tokens are above those of before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_never_grants_and_a_holder_of_a_majority_is_told_when_it_goes() {
    let mut servers = Servers::start().await;
    let (holder, other) = (client(&servers), client(&servers));
    let guard = granted(&holder).await;
    let before = guard.token();
    // Two of them make a grant. The third, which may still be starting, joins the hold later, and
    // is a part of it once it was renewed with it.
    let is_there = |server: &ZooKeeperServer| !server.children("/held").is_empty();
    eventually("a claim at each", || servers.all.iter().all(is_there)).await;
    let renewals = holder.stats().renewals;
    // Where it is lost, none of them comes any more.
    let renewed = |more: u64| {
        assert!(guard.is_held(), "a majority is there");
        holder.stats().renewals >= renewals + more
    };
    eventually("renewals by three", || renewed(2)).await;
    servers.all[0].kill();
    let two = holder.stats().renewals - renewals;
    eventually("renewals by two", || renewed(two + 3)).await;
    servers.all[2].kill();
    within("the loss", guard.lost()).await;
    let refused = |locks: &LockClient, key: &'static str| {
        let (locks, asked) = (locks.clone(), Stopwatch::start());
        async move {
            let error = locks.lock(key).options(options()).await.expect_err("no majority");
            assert!(error.is_unavailable() && error.is_retryable(), "{error}");
            assert!(asked.own() < ms(3_500), "{:?}", asked.elapsed());
        }
    };
    tokio::join!(refused(&holder, "held"), refused(&other, "held"), refused(&other, "free"));
    drop(guard);
    servers.all[0].restart();
    let guard = granted(&other).await;
    assert!(guard.token() > before);
    guard.release().await.unwrap();
}
