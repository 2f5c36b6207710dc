//! One task, a free key, at a majority of three and of five servers, beside one server.

use std::future::ready;

use futures_util::future::join_all;
use lock_core::LockClient;
use tests::clock::now_ns;
use tests::redis::RedisServer;

use crate::arguments::Arguments;
use crate::report::{Target, Work};
use crate::rivals::{Evalsha, LEASE, Rival, client, options, rslock};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";
const REQUESTS: &str = "requests each";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 50;

const ONE: &str = "ours, one server";
const THREE: &str = "ours, quorum of 3";
const THREE_HUNG: &str = "ours, quorum of 3, one hung";
const FIVE: &str = "ours, quorum of 5";
const FIVE_HUNG: &str = "ours, quorum of 5, one hung";
const BARE_THREE: &str = "2 × EVALSHA at 3 servers at once";
const BARE_FIVE: &str = "2 × EVALSHA at 5 servers at once";
const RSLOCK_THREE: &str = "rslock 0.10, 3 servers";
const RSLOCK_FIVE: &str = "rslock 0.10, 5 servers";

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let servers: Vec<_> = (0..5).map(|_| RedisServer::start()).collect();
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        repeat(&mut series, &servers, arguments.count(2_000)).await;
    }
    let ratio = |one, other| series.ratio(one, other, P50).median;
    let targets = vec![
        Target::at_most("of 3 ÷ two round trips to each, p50", ratio(THREE, BARE_THREE), 1.6),
        Target::at_most("of 5 ÷ two round trips to each, p50", ratio(FIVE, BARE_FIVE), 1.6),
        Target::at_most("quorum of 3 ÷ one server, p50", ratio(THREE, ONE), 1.6),
        Target::at_most("quorum of 5 ÷ one server, p50", ratio(FIVE, ONE), 1.6),
        Target::at_most("of 3, one hung ÷ all alive, p50", ratio(THREE_HUNG, THREE), 1.1),
        Target::at_most("of 5, one hung ÷ all alive, p50", ratio(FIVE_HUNG, FIVE), 1.1),
    ];
    Work {
        name: "quorum",
        title: "one task, free key, acquire + release at a majority of servers".to_owned(),
        compared: vec![(THREE, P50)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// A rival that takes turns, with its connections.
enum Runner {
    Ours(LockClient),
    Bare(Vec<Evalsha>),
    Rslock(rslock::Rslock),
}

impl Runner {
    /// How many requests it says it has sent, if it counts them.
    fn requests(&self) -> Option<u64> {
        match self {
            Self::Ours(locks) => Some(locks.stats().store_requests),
            Self::Bare(_) | Self::Rslock(_) => None,
        }
    }

    async fn cycle(&self) {
        const KEY: &str = "bench:quorum";
        match self {
            Self::Ours(locks) => {
                let guard = locks.lock(KEY).acquire().await.expect("a free key");
                guard.release().await.expect("a held lock");
            }
            Self::Bare(servers) => {
                for which in 0..2 {
                    join_all(servers.iter().map(|server| server.round_trip(which, "bare"))).await;
                }
            }
            Self::Rslock(rival) => rival.cycle("bench:rslock", || ready(())).await,
        }
    }
}

async fn repeat(series: &mut Series, servers: &[RedisServer], cycles: usize) {
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let mut alive = vec![(ONE, Runner::Ours(client(&urls[0], options()).await))];
    for (of, ours, bare, rslock) in
        [(3, THREE, BARE_THREE, RSLOCK_THREE), (5, FIVE, BARE_FIVE, RSLOCK_FIVE)]
    {
        alive.push((ours, Runner::Ours(quorum(&servers[..of]).await)));
        let evalshas = urls[..of].iter().map(|url| Evalsha::set_and_delete(url));
        alive.push((bare, Runner::Bare(join_all(evalshas).await)));
        alive.push((rslock, Runner::Rslock(rslock::Rslock::at(&urls[..of]))));
    }
    measure(series, alive, cycles).await;
    let hung =
        [(THREE_HUNG, quorum(&servers[..3]).await), (FIVE_HUNG, quorum(&servers[..5]).await)];
    servers[0].freeze();
    let hung = hung.map(|(name, locks)| (name, Runner::Ours(locks)));
    measure(series, hung.into(), cycles).await;
    servers[0].thaw();
}

async fn measure(series: &mut Series, runners: Vec<(&'static str, Runner)>, cycles: usize) {
    let mut times: Vec<_> = runners.iter().map(|_| Latencies::new()).collect();
    let sent: Vec<_> = runners.iter().map(|(_, runner)| runner.requests()).collect();
    for block in 0..=cycles / BLOCK {
        for ((_, runner), times) in runners.iter().zip(&mut times) {
            for _ in 0..BLOCK {
                let start_ns = now_ns();
                runner.cycle().await;
                // The first block warms connections and caches up.
                if block > 0 {
                    times.record(now_ns() - start_ns);
                }
            }
        }
    }
    let made = (cycles / BLOCK + 1) * BLOCK;
    for (((name, runner), times), before) in runners.iter().zip(times).zip(sent) {
        series.push(name, P50, times.ns(0.5) / 1e3);
        series.push(name, P99, times.ns(0.99) / 1e3);
        if let (Some(before), Some(after)) = (before, runner.requests()) {
            series.push(name, REQUESTS, (after - before) as f64 / made as f64);
        }
    }
}

/// Founded by now, as all members answer, and past the time that new servers are kept away.
async fn quorum(servers: &[RedisServer]) -> LockClient {
    let hosts: Vec<_> = servers.iter().map(|server| server.addr().to_string()).collect();
    // Quorums of three and of five on the same servers: each has a database of its own.
    let url =
        format!("redlock://{}/{}?lease_max={}s", hosts.join(","), hosts.len(), LEASE.as_secs());
    let locks = client(&url, options()).await;
    while locks.lock("ready").acquire().await.is_err() {}
    locks
}
