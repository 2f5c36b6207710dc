//! The command line.

use std::time::Duration;

use clap::Parser;

/// Measures the lock beside its rivals. Needs `redis-server`, and for the works named `zk-…`
/// ZooKeeper, Curator and a JDK, for those named `etcd-…` etcd and Go; takes about half an hour.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Arguments {
    /// The works to run, by their name or a part of several names: single, layer, layer-memory,
    /// many-keys, hot-64, hot-1000, processes, strict, readers, writer, permits, handoff, linger, held, quorum,
    /// overload, burst, zk-single, zk-hot-64, zk-strict, zk-handoff, sqlite-single, sqlite-hot-64,
    /// sqlite-processes, postgres-single, postgres-hot-64, postgres-processes, postgres-stopped,
    /// postgres-held, mariadb-single, mariadb-hot-64, mariadb-processes, mariadb-stopped, mariadb-held,
    /// etcd-single, etcd-hot-64, etcd-strict, scale. All by default.
    pub(crate) names: Vec<String>,
    /// How often each work measures each rival.
    #[arg(long, default_value_t = 3)]
    pub(crate) repeats: usize,
    /// A quarter of the time and of the keys, once. For a look, not for a claim.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draws what `scale` measured into docs/scale.svg.
    #[arg(long)]
    pub(crate) plot: bool,
    /// Prints JSON instead of markdown.
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs as one of the processes of a work; for the bench itself.
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
    /// The flag that cargo gives to a bench.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

impl Arguments {
    pub(crate) fn repeats(&self) -> usize {
        if self.quick { 1 } else { self.repeats.max(1) }
    }

    /// `full`, or a quarter of it for a quick run.
    pub(crate) fn span(&self, full: Duration) -> Duration {
        if self.quick { full / 4 } else { full }
    }

    /// `full`, or a quarter of it for a quick run.
    pub(crate) fn count(&self, full: usize) -> usize {
        if self.quick { full / 4 } else { full }
    }
}
