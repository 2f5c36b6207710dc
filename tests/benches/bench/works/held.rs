//! 100,000 keys held at once: memory and the cost of keeping them.

use std::time::Duration;

use serde_json::json;
use tests::clock::now_ns;
use tests::redis::RedisServer;
use tests::worker::{Reply, Worker};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::child::{Input, Plan, answer, spawn};
use crate::report::{Target, Work};
use crate::rivals::Contender::Ours;
use crate::rivals::{client, options};
use crate::series::Series;

const BYTES: &str = "bytes per key";
pub(crate) const CPU: &str = "client CPU, % of a core";
const SERVER_SHARE: &str = "server CPU, % of a core";
const RENEWALS: &str = "renewals/s";
const ACQUIRE_RATE: &str = "acquisitions/s";
pub(crate) const LOST: &str = "lost";

/// How many acquires are under way at once while the keys are taken.
const TOGETHER: usize = 256;

/// The kernel's unit of process times, fixed at 100 per second towards user space.
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    let keys = arguments.count(100_000);
    for _ in 0..arguments.repeats() {
        let server = RedisServer::start();
        repeat(&mut series, &server.url(), Some(server.pid()), keys, arguments).await;
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_most("bytes per key, worst repeat", series.spread(ours, BYTES).max, 1_000.0),
        Target::at_most("renewal CPU %, worst repeat", series.spread(ours, CPU).max, 5.0),
        Target::at_most("server CPU %, worst repeat", series.spread(ours, SERVER_SHARE).max, 15.0),
        Target::at_most("keys lost, worst repeat", series.spread(ours, LOST).max, 0.0),
    ];
    let lease_s = options().lease.as_secs();
    let shown = if arguments.quick { "25,000" } else { "100,000" };
    Work {
        name: "held",
        title: format!("{shown} distinct keys held at once, lease {lease_s} s"),
        compared: Vec::new(),
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One run, on a server whose time is noted where it is one process.
pub(crate) async fn repeat(
    series: &mut Series,
    url: &str,
    server: Option<u32>,
    keys: usize,
    arguments: &Arguments,
) {
    let mut child: Worker = spawn(&Plan::Hold { url: url.to_owned(), keys });
    let limit = Duration::from_secs(60);
    let taken = child.reply_within(limit).await.expect("all keys within a minute");
    let ours = Ours.name();
    let number = |reply: &Reply, name: &str| {
        let value = reply.value.as_ref().and_then(|value| value[name].as_f64());
        value.unwrap_or_else(|| panic!("no {name} in {reply:?}"))
    };
    let server_ticks = || server.map(|pid| ticks(&pid.to_string()));
    let before = server_ticks();
    // At least one whole round of renewals, which are due at a third of the lease.
    let span = arguments.span(Duration::from_secs(12)).max(Duration::from_secs(5));
    child.send(&span.as_millis().to_string());
    let kept = child.reply_within(limit).await.expect("an answer after the span");
    let percent = 100.0 / TICKS_PER_SECOND / span.as_secs_f64();
    series.push(ours, ACQUIRE_RATE, number(&taken, "acquisitions_per_s"));
    series.push(ours, BYTES, number(&taken, "bytes") / keys as f64);
    series.push(ours, CPU, number(&kept, "ticks") * percent);
    if let (Some(after), Some(before)) = (server_ticks(), before) {
        series.push(ours, SERVER_SHARE, (after - before) as f64 * percent);
    }
    series.push(ours, RENEWALS, number(&kept, "renewals") / span.as_secs_f64());
    series.push(ours, LOST, keys as f64 - number(&kept, "held"));
}

/// The child's side.
pub(crate) async fn hold(url: &str, keys: usize, input: &mut Input) {
    let locks = client(url, options()).await;
    let warm = locks.lock("bench:held:warm").acquire().await.expect("a free key");
    warm.release().await.expect("a held lock");

    let (before, start_ns) = (resident_bytes(), now_ns());
    let mut tasks = JoinSet::new();
    for task in 0..TOGETHER {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut guards = Vec::with_capacity(keys / TOGETHER + 1);
            for key in (task..keys).step_by(TOGETHER) {
                let key = format!("bench:held:{key}");
                guards.push(locks.lock(key).acquire().await.expect("a free key"));
            }
            guards
        });
    }
    let guards: Vec<_> = tasks.join_all().await;
    let took_s = (now_ns() - start_ns) as f64 / 1e9;
    let bytes = resident_bytes().saturating_sub(before);
    let value = json!({ "bytes": bytes, "acquisitions_per_s": keys as f64 / took_s });
    answer(&Reply { value: Some(value), ..Reply::done() });

    let span_ms: u64 = input.line().await.parse().expect("milliseconds");
    let (ticks_before, renewals_before) = (ticks("self"), locks.stats().renewals);
    sleep(Duration::from_millis(span_ms)).await;
    let value = json!({
        "ticks": ticks("self") - ticks_before,
        "renewals": locks.stats().renewals - renewals_before,
        "held": guards.iter().flatten().filter(|guard| guard.is_held()).count(),
    });
    answer(&Reply { value: Some(value), ..Reply::done() });
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux /proc");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * 4_096
}

/// User and system time of a process, in ticks.
fn ticks(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a Linux /proc");
    // The name may contain spaces; the fields that count come after its bracket.
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let field = |n: usize| -> u64 {
        fields.split_whitespace().nth(n).and_then(|field| field.parse().ok()).expect("ticks")
    };
    field(11) + field(12)
}
