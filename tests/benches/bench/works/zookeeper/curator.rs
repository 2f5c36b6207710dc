//! Curator's figures, as ours are noted.

use std::time::Duration;

use tests::curator::{CuratorBench, Hot, Spans, Uncontended};
use tests::zookeeper::ZooKeeperServer;

use crate::measure::{JAIN, PACKETS, RATE, STARVED};
use crate::series::{Series, jain};

/// Its name in the tables; the report's head has the version.
pub(super) const NAME: &str = "Curator";

/// Latencies no longer fall after it.
pub(super) fn warmed_up(measured: Duration) -> Spans {
    Spans { warm_up: Duration::from_secs(3), measured }
}

/// Curator's processes of one run, ready.
pub(super) struct Crowd {
    processes: Vec<CuratorBench<Hot>>,
    threads: u32,
}

impl Crowd {
    /// Starts them one by one, as two that warm up together take longer.
    pub(super) async fn ready(
        server: &ZooKeeperServer,
        path: &str,
        processes: usize,
        threads: u32,
        span: Duration,
    ) -> Self {
        let (address, spans) = (server.connect_string(), warmed_up(span));
        let mut crowd = Crowd { processes: Vec::new(), threads };
        for _ in 0..processes {
            crowd.processes.push(CuratorBench::hot(&address, path, threads, spans).await);
        }
        crowd
    }

    /// Measures all of them together.
    pub(super) async fn run(self, series: &mut Series, server: &ZooKeeperServer) {
        server.reset_stats();
        let threads = self.processes.len() as u64 * u64::from(self.threads);
        let mut running = tokio::task::JoinSet::new();
        for process in self.processes {
            running.spawn(process.go());
        }
        let figures = running.join_all().await;
        let packets = server.packets_received();
        let shares: Vec<u64> = figures.iter().flat_map(|f| f.per_thread.clone()).collect();
        let grants: u64 = shares.iter().sum();
        series.push(NAME, RATE, figures.iter().map(|f| f.grants_per_s).sum());
        // Each thread ends with a grant that comes too late to count.
        series.push(NAME, PACKETS, packets as f64 / (grants + threads) as f64);
        series.push(NAME, JAIN, jain(&shares));
        series.push(NAME, STARVED, shares.iter().filter(|share| **share == 0).count() as f64);
    }
}

/// Curator's one thread on a free path, ready.
pub(super) async fn alone(
    server: &ZooKeeperServer,
    path: &str,
    span: Duration,
) -> CuratorBench<Uncontended> {
    CuratorBench::uncontended(&server.connect_string(), path, warmed_up(span)).await
}
