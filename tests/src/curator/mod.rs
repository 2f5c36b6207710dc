//! Apache Curator in a process of its own, as client and as rival.
//!
//! Whether a lock on ZooKeeper stands in one line with Java services is proven by real Curator
//! only. [`Curator`] runs the Java program in `tests/interop/curator/`: handles that acquire,
//! wait, re-enter, revoke and release `InterProcessMutex`, `InterProcessReadWriteLock` and
//! `InterProcessSemaphoreV2` on command, and a process to kill.
//! [`CuratorBench`] runs the same program to measure Curator beside our lock.
//!
//! ```no_run
//! # async fn demo(server: &str) {
//! use std::time::Duration;
//! use tests::curator::Curator;
//!
//! let curator = Curator::start(server, Duration::from_secs(4)).await;
//! let wait = Duration::from_secs(1);
//! let grant = curator.acquire("a", "/orders", wait).await.unwrap().expect("a free lock");
//! let waits = curator.acquire("b", "/orders", wait); // in line before it is awaited
//! assert_eq!(curator.participants("/orders").await.unwrap()[0], grant.node);
//! curator.release("a").await.unwrap();
//! assert!(waits.await.unwrap().is_some());
//! # }
//! ```
//!
//! The sources are compiled at the first use and again when they change. The JVM is Debian's, as
//! are Curator's jars; when one is missing, a fixture panics with the package's name.
//!
//! - `client`: Curator on command. `bench`: Curator measured.
//! - `program`: the Java program: found, compiled, ready to be run.
//! - `process`: its JVM and its lines.
//! - `answer`: its answers and events. `desk`: brings them to who waits for them.

mod answer;
mod bench;
mod client;
mod desk;
mod process;
mod program;

pub use answer::{Event, Failure, Grant, Recipe, State};
pub use bench::{CuratorBench, Hot, Latencies, Spans, Uncontended};
pub use client::Curator;
