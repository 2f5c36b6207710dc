//! Following the master: planned switches, and masters that die or hang under load.

use std::time::Duration;

use tests::actor::Actor;
use tests::checker::Checker;
use tests::stalls::Stopwatch;
use tests::worker::Worker;

use crate::support::*;

/// Waits for the switch away from `old`; when the first sentinel knew of it.
async fn switch(set: &SentinelSet, old: usize) -> (usize, Stopwatch) {
    set.begins_to_switch(old).await;
    let at = Stopwatch::start();
    (set.switched(old).await, at)
}

/// V2, V5, V6: a hold outlives a planned switch, one that waits is granted at the new master, and
/// nothing is left at the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_switch_is_followed_by_holders_and_by_those_who_wait() {
    let (_turn, set) = a_set().await;
    let old = set.master();
    let (holder, waiter) =
        (connect(&set.url(), ms(6_000)).await, connect(&set.url(), ms(6_000)).await);
    let held = holder.lock("k").replicas(2, ms(1_000)).retries(20).await.unwrap();
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.lock("k").await.unwrap() }
    });
    eventually("it waits at the old one", || {
        set.server(old).command::<u64>(&["LLEN", "lock:{k}:queue"]) == 1
    })
    .await;
    let new = set.failover().await;
    let start = Stopwatch::start();
    eventually("it waits at the new one", || {
        set.server(new).command::<u64>(&["LLEN", "lock:{k}:queue"]) == 1
    })
    .await;
    assert!(start.own() < FOLLOWED_WITHIN, "{:?}", start.elapsed());
    let renewals = holder.stats().renewals;
    eventually("the new master renews", || holder.stats().renewals > renewals).await;
    assert!(held.is_held());
    let token = held.token();
    held.release().await.unwrap();
    let next = within("the grant", waiting).await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    eventually("nobody asks the old one", || !has_clients(set.server(old))).await;
    nothing_left(&set, &[old, new], [holder, waiter]).await;
}

/// Workers that contend for one key over all that is done to the master.
struct Load {
    history: History,
    workers: Vec<Worker>,
    register: RedisServer,
}

const ROUNDS: u64 = 40;

impl Load {
    fn start(url: &str) -> Self {
        let register = RedisServer::start();
        let history = History::of_resource(register.url());
        let mut workers: Vec<_> =
            (0..3).map(|n| history.worker(&format!("w{n}"), url, ms(2_000))).collect();
        for worker in &mut workers {
            // Four tasks each, 5 ms a hold, 30 s a wait: as long as a switch may take.
            worker.send(&format!("contend k 4 {ROUNDS} 5000 30000"));
        }
        Self { history, workers, register }
    }

    async fn is_on_its_way(&self) {
        eventually("writes", || {
            let value: Option<u64> = self.register.command(&["HGET", "resource:k", "writes"]);
            value.is_some_and(|writes| writes > 20)
        })
        .await;
    }

    /// V1, V2, V4 and V5: everyone was served within its budget, and so were `others`.
    async fn end(mut self, others: u64) {
        for worker in &mut self.workers {
            let reply = worker.reply_within(Duration::from_secs(120)).await.expect("an end");
            reply.expect_success();
            let counts = reply.value.expect("counts");
            assert_eq!(counts["acquired"], 4 * ROUNDS, "{counts}");
            assert_eq!(counts["errors"], serde_json::json!({}), "{counts}");
            worker.send("exit");
            worker.ended().await;
        }
        let report = self.history.check(Checker::new());
        assert_eq!(report.grants, 3 * 4 * ROUNDS + others);
    }
}

/// A probe that is granted at the new master soon after the switch.
async fn is_served(set: &SentinelSet, probe: &Actor, old: usize) -> usize {
    let (new, at) = switch(set, old).await;
    let (guard, _) = probe.acquire("probe", ms(30_000)).await;
    let took = at.own();
    probe.release(guard.unwrap()).await.unwrap();
    assert!(took < FOLLOWED_WITHIN, "{took:?} after the switch");
    new
}

/// V1, V2, V4, V5: the master changes under load, and changes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_take_turns_under_load_cost_nobody_the_lock() {
    let (_turn, set) = a_set().await;
    let load = Load::start(&set.url());
    load.is_on_its_way().await;
    let first = set.failover().await;
    let second = set.failover().await;
    assert_ne!(first, second);
    load.end(0).await;
}

/// V1, V2, V4, V5: a master is killed under load; all are served within their budget, no token
/// repeats or goes back, and the switch is followed within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_killed_under_load_costs_nobody_the_lock() {
    let (_turn, mut set) = a_hasty_set().await;
    let locks = connect(&set.url(), ms(2_000)).await;
    let load = Load::start(&set.url());
    let probe = load.history.actor("probe", &locks);
    load.is_on_its_way().await;
    let old = set.master();
    set.server_mut(old).kill();
    is_served(&set, &probe, old).await;
    load.end(1).await;
}

/// F09 (V1, V2, V4, V5): the same for one that hangs, and is back when another is the master: at
/// first it takes itself for the master still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_under_load_and_comes_back_costs_nobody_the_lock() {
    let (_turn, set) = a_hasty_set().await;
    let locks = connect(&set.url(), ms(2_000)).await;
    let load = Load::start(&set.url());
    let probe = load.history.actor("probe", &locks);
    load.is_on_its_way().await;
    let old = set.master();
    set.server(old).freeze();
    is_served(&set, &probe, old).await;
    set.server(old).thaw();
    load.end(1).await;
    eventually("only the master is asked", || {
        let master = set.master();
        let others = set.others(master);
        has_clients(set.server(master)) && !others.iter().any(|one| has_clients(set.server(*one)))
    })
    .await;
}
