//! How soon a holder is told that its lock is gone from the server.

use std::time::Duration;

use lock_core::LockGuard;
use tests::clock::now_ns;
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::arguments::Arguments;
use crate::report::{Target, Work};
use crate::rivals::Contender::Ours;
use crate::rivals::{client, options};
use crate::series::Series;

const DELETED: &str = "key deleted by hand, told after ms";
const BACK: &str = "server back without its data, told after ms";

/// The first renewal comes after a third of it, and no other while it is waited for.
const LEASE: Duration = Duration::from_secs(3);

/// In each repeat, of each.
const ROUNDS: usize = 5;

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        repeat(&mut series).await;
    }
    let ours = Ours.name();
    let worst = |figure| series.spread(ours, figure).max;
    let targets = vec![
        Target::at_most("deleted by hand, worst ms", worst(DELETED), 50.0),
        Target::at_most("server back without its data, worst ms", worst(BACK), 100.0),
    ];
    Work {
        name: "told",
        title: format!("a hold, renewed once, whose key is gone; lease {} s", LEASE.as_secs()),
        compared: Vec::new(),
        series,
        targets,
        notes: Vec::new(),
    }
}

/// Pushes the longest time of some rounds.
async fn repeat(series: &mut Series) {
    let mut server = RedisServer::start();
    let locks = client(&server.url(), options().with_lease(LEASE)).await;
    let (mut deleted, mut back) = (0.0_f64, 0.0_f64);
    for round in 0..ROUNDS {
        let key = format!("bench:told:{round}");
        let before = locks.stats().renewals;
        let guard = locks.lock(key.as_str()).acquire().await.expect("a free key");
        eventually("a renewal", || locks.stats().renewals > before).await;
        let gone_ns = now_ns();
        server.command::<u64>(&["DEL", &format!("lock:{{{key}}}")]);
        deleted = deleted.max(told(guard, gone_ns).await);
    }
    for round in 0..ROUNDS {
        let key = format!("bench:told:back:{round}");
        let guard = locks.lock(key.as_str()).acquire().await.expect("a free key");
        // It may be told before the fixture has seen the server answer.
        let answers_ns = tokio::task::block_in_place(|| {
            server.restart();
            now_ns()
        });
        back = back.max(told(guard, answers_ns).await);
    }
    series.push(Ours.name(), DELETED, deleted);
    series.push(Ours.name(), BACK, back);
}

/// When the holder was told, in milliseconds since then.
async fn told(guard: LockGuard, since_ns: u64) -> f64 {
    guard.lost().await;
    now_ns().saturating_sub(since_ns) as f64 / 1e6
}
