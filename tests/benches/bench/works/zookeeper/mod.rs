//! Works on ZooKeeper, beside Apache Curator on the same server.
//!
//! Curator warms up before a repeat, in as many processes as it is measured; then ours and it
//! take turns in short runs. A repeat's figure is the median of its runs.

mod curator;
pub(crate) mod hot;
pub(crate) mod processes;
pub(crate) mod single;

use std::future::ready;
use std::time::Duration;

use tests::clock::now_ns;
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};

use crate::rivals::Contender::BareTwo;

/// How often each is measured within a repeat.
const ROUNDS: usize = 3;

/// How long the server's own compilers are given.
const SERVER_WARM_UP: Duration = Duration::from_secs(3);

/// A server as it is by default: it syncs each write, and looks for empty directories each minute.
async fn server() -> ZooKeeperServer {
    let options = ZooKeeperOptions::new().optimizing().container_check_ms(60_000);
    let server = ZooKeeperServer::with(options);
    let bare = BareTwo.connect(&server.url()).await;
    let end_ns = now_ns() + SERVER_WARM_UP.as_nanos() as u64;
    while now_ns() < end_ns {
        bare.cycle("bench-warm-up", || ready(())).await;
    }
    server
}

/// How much the machine had to do beside this work, for the reader.
struct Load(String);

impl Load {
    fn now() -> Self {
        Load(Self::average())
    }

    fn note(self) -> String {
        let Load(before) = self;
        format!("Load average of a minute before and after: {before}, {}.", Self::average())
    }

    fn average() -> String {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        text.split(' ').next().unwrap_or_default().to_owned()
    }
}
