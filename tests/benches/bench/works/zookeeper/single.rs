//! One task, a free key.

use std::future::ready;
use std::time::Duration;

use tests::clock::now_ns;
use tests::curator::{CuratorBench, Spans, Uncontended};
use tests::proxy::{Direction, Flow, Proxy};
use tests::zookeeper::ZooKeeperServer;

use super::{Load, ROUNDS, curator, server};
use crate::arguments::Arguments;
use crate::measure::{PACKETS, RATE};
use crate::report::{Target, Work};
use crate::rivals::Connected;
use crate::rivals::Contender::{self, BareThree, BareTwo, Ours};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";
const REQUESTS: &str = "requests each";
const TRIPS: &str = "round trips";

const CONTENDERS: [Contender; 3] = [Ours, BareTwo, BareThree];

/// Cycles before the first that counts, of every contender.
const WARM_UP: usize = 100;

/// The link that round trips are counted over: so long that nothing else shows.
const LINK: Duration = Duration::from_millis(40);

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let load = Load::now();
    let server = server().await;
    let mut series = Series::default();
    let span = arguments.span(Duration::from_millis(1_000));
    for repeat in 0..arguments.repeats() {
        let mut curators = Vec::new();
        for round in 0..ROUNDS {
            let path = format!("/bench-single-{repeat}-{round}-curator");
            curators.push(curator::alone(&server, &path, span).await);
        }
        let mut rounds = Series::default();
        for (round, bench) in curators.into_iter().enumerate() {
            for (number, contender) in CONTENDERS.into_iter().enumerate() {
                let key = format!("bench-single-{repeat}-{round}-{number}");
                near(&mut rounds, &server, contender, key, span).await;
            }
            near_curator(&mut rounds, &server, bench).await;
        }
        far(&mut rounds, &server, repeat, arguments.count(24)).await;
        series.push_medians(&rounds);
    }
    let trips = |name| series.spread(name, TRIPS).median;
    let ours = Ours.name();
    let targets = vec![
        Target::at_least("rate ÷ Curator's", series.ratio(ours, curator::NAME, RATE).median, 1.3),
        Target::at_most("requests per cycle, worst repeat", series.spread(ours, REQUESTS).max, 3.1),
        Target::at_least("round trips less than Curator", trips(curator::NAME) - trips(ours), 0.9),
    ];
    let link = format!("Round trips: the p50 of a cycle over a link of {LINK:?}, divided by it.");
    let p50 = series.ratio(ours, curator::NAME, P50);
    let p50 = format!(
        "The p50 of ours ÷ Curator's: {:.2} [{:.2}–{:.2}]; unlike a rate it leaves out the pauses \
         of a busy machine.",
        p50.median, p50.min, p50.max
    );
    Work {
        name: "zk-single",
        title: "ZooKeeper, one task, free key, acquire + release".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![link, p50, load.note()],
    }
}

/// The figures of one run beside the server.
async fn near(
    series: &mut Series,
    server: &ZooKeeperServer,
    contender: Contender,
    key: String,
    span: Duration,
) {
    let rival = contender.connect(&server.url()).await;
    cycles(&rival, &key, |done, _| done < WARM_UP).await;
    server.reset_stats();
    let requests = rival.requests();
    let span_ns = span.as_nanos() as u64;
    let (latencies, spent_ns) = cycles(&rival, &key, move |_, spent_ns| spent_ns < span_ns).await;
    let count = latencies.count() as f64;
    let (name, us) = (contender.name(), |quantile| latencies.ns(quantile) / 1e3);
    series.push(name, P50, us(0.5));
    series.push(name, P99, us(0.99));
    series.push(name, RATE, count / (spent_ns as f64 / 1e9));
    if let (Some(before), Some(after)) = (requests, rival.requests()) {
        series.push(name, REQUESTS, (after - before) as f64 / count);
    }
    series.push(name, PACKETS, server.packets_received() as f64 / count);
}

async fn near_curator(
    series: &mut Series,
    server: &ZooKeeperServer,
    bench: CuratorBench<Uncontended>,
) {
    server.reset_stats();
    let figures = bench.go().await;
    let packets = server.packets_received();
    series.push(curator::NAME, P50, figures.pair.p50_us);
    series.push(curator::NAME, P99, figures.pair.p99_us);
    series.push(curator::NAME, RATE, figures.count as f64 / figures.seconds);
    series.push(curator::NAME, PACKETS, packets as f64 / figures.count as f64);
}

/// How many round trips one has to wait for.
async fn far(series: &mut Series, server: &ZooKeeperServer, repeat: usize, count: usize) {
    let link = Proxy::zookeeper(server.addr());
    for direction in [Direction::ToServer, Direction::ToClient] {
        link.set(direction, Flow::Delay(LINK / 2));
    }
    let trips = |p50_us: f64| p50_us / 1e6 / LINK.as_secs_f64();
    for (number, contender) in CONTENDERS.into_iter().enumerate() {
        let key = format!("bench-far-{repeat}-{number}");
        let rival = contender.connect(&link.url()).await;
        // The first one makes the directory.
        cycles(&rival, &key, |done, _| done < 1).await;
        let (latencies, _) = cycles(&rival, &key, move |done, _| done < count).await;
        series.push(contender.name(), TRIPS, trips(latencies.ns(0.5) / 1e3));
    }
    let path = format!("/bench-far-{repeat}-curator");
    let spans = Spans { warm_up: 8 * LINK, measured: LINK * 3 * count as u32 };
    let bench = CuratorBench::uncontended(&link.addr().to_string(), &path, spans).await;
    series.push(curator::NAME, TRIPS, trips(bench.go().await.pair.p50_us));
}

/// Takes and gives back while `goes_on`, which is told the cycles and the nanoseconds so far, from
/// a task as services do. The latency of each cycle, and the time of all in nanoseconds.
async fn cycles(
    rival: &Connected,
    key: &str,
    goes_on: impl Fn(usize, u64) -> bool + Send + 'static,
) -> (Latencies, u64) {
    let (rival, key) = (rival.clone(), key.to_owned());
    let task = tokio::spawn(async move {
        let mut latencies = Latencies::new();
        let start_ns = now_ns();
        let mut end_ns = start_ns;
        while goes_on(latencies.count() as usize, end_ns - start_ns) {
            let asked_ns = now_ns();
            rival.cycle(&key, || ready(())).await;
            end_ns = now_ns();
            latencies.record(end_ns - asked_ns);
        }
        (latencies, end_ns - start_ns)
    });
    task.await.expect("a run that does not panic")
}
