//! Curator measured, to be compared with.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::process::{Output, Process};
use crate::wait::PATIENCE;

/// All tiers of the compiler and the collector that the JVM chooses: Curator at its best.
const JVM: [&str; 2] = ["-Xms256m", "-Xmx256m"];

/// How long a measurement takes.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// Before it, for the JVM's compilers, on a path beside the measured one. Latencies still fall
    /// after 1 s; 3 s are enough.
    pub warm_up: Duration,
    /// The measurement itself.
    pub measured: Duration,
}

/// A Java process that has connected and warmed up, and measures when told to. Killed when dropped.
///
/// Several that are started first and told together measure together:
///
/// ```no_run
/// # async fn demo(server: &str) {
/// use std::time::Duration;
/// use tests::curator::{CuratorBench, Spans};
///
/// let spans = Spans { warm_up: Duration::from_secs(3), measured: Duration::from_secs(5) };
/// let one = CuratorBench::hot(server, "/hot", 8, spans).await;
/// let two = CuratorBench::hot(server, "/hot", 8, spans).await;
/// let (one, two) = tokio::join!(one.go(), two.go());
/// println!("{} grants/s", one.grants_per_s + two.grants_per_s);
/// # }
/// ```
#[derive(Debug)]
pub struct CuratorBench<F> {
    process: Process,
    output: Output,
    measured: Duration,
    figures: PhantomData<fn() -> F>,
}

/// One thread that acquired and released one `InterProcessMutex`, over and over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Uncontended {
    /// How often it did.
    pub count: u64,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// From the call of `acquire` to the return of `release`.
    pub pair: Latencies,
    /// From the call of `acquire` to its return.
    pub acquire: Latencies,
}

/// Exact percentiles, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub struct Latencies {
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// Threads of one client that acquired and released one path, with an `InterProcessMutex` each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hot {
    /// Grants in the measured span, of all threads.
    pub grants: u64,
    /// The measured span, in seconds.
    pub seconds: f64,
    /// Their quotient.
    pub grants_per_s: f64,
    /// Grants of each thread.
    pub per_thread: Vec<u64>,
    /// Jain's index of `per_thread`: 1 if all had the same, 1/n if one had all.
    pub jain: f64,
}

impl CuratorBench<Uncontended> {
    /// Prepares one thread on `path`, which nobody else may use.
    ///
    /// # Panics
    ///
    /// If Java or Curator is missing, with the Debian package, or if it is not ready 20 s after
    /// its warm-up.
    pub async fn uncontended(connect_string: &str, path: &str, spans: Spans) -> Self {
        Self::prepare(connect_string, path, spans, &["uncontended"]).await
    }
}

impl CuratorBench<Hot> {
    /// Prepares `threads` threads on `path`, which others may want as well.
    ///
    /// # Panics
    ///
    /// As [`uncontended`](CuratorBench::uncontended).
    pub async fn hot(connect_string: &str, path: &str, threads: u32, spans: Spans) -> Self {
        Self::prepare(connect_string, path, spans, &["hot", &threads.to_string()]).await
    }
}

impl<F: DeserializeOwned> CuratorBench<F> {
    /// Measures, from the first poll on, and ends the program.
    ///
    /// # Panics
    ///
    /// If there are no figures 10 s after the measured span, with the end of Java's standard error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the program.
    pub async fn go(mut self) -> F {
        self.process.send("go".to_owned());
        let line = self.line("figures", self.measured + PATIENCE).await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    async fn prepare(connect_string: &str, path: &str, spans: Spans, load: &[&str]) -> Self {
        let ms = |span: Duration| span.as_millis().to_string();
        let (warm_up, measured) = (ms(spans.warm_up), ms(spans.measured));
        let common = ["bench", connect_string, &warm_up, &measured, path];
        let (process, output) = Process::start(&JVM, &[&common, load].concat()).await;
        let mut bench =
            CuratorBench { process, output, measured: spans.measured, figures: PhantomData };
        bench.line("warm-up", spans.warm_up + 2 * PATIENCE).await;
        bench
    }

    async fn line(&mut self, what: &str, limit: Duration) -> String {
        match timeout(limit, self.output.next_line()).await {
            Ok(Ok(Some(line))) => line,
            Ok(_) => self.process.stderr().panic(&format!("ended without {what}")),
            Err(_) => self.process.stderr().panic(&format!("no {what} in {limit:?}")),
        }
    }
}
