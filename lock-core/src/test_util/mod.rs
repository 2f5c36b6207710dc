//! For authors of backends: does a store keep what the engine relies on?
//!
//! A lock is as good as the store's worst moment: a reply that got lost, a waiter that died in the
//! line, a lease that ended while nobody looked. The [`conformance`] suite puts each of these
//! moments to a [`Subject`] and checks the answer. [`scripted`] makes any backend slow, silent or
//! forgetful on command, to test what stands above it.
//!
//! ```
//! use lock_core::memory::Memory;
//! use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
//!
//! #[derive(Debug, Default)]
//! struct InMemory(Memory);
//!
//! impl Subject for InMemory {
//!     fn open(&self) -> BoxFuture<'_, AnyBackend> {
//!         let backend = AnyBackend::new(self.0.clone());
//!         Box::pin(async { backend })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! conformance::all(&InMemory::default()).await;
//! # }
//! ```
//!
//! [`conformance_tests!`](crate::conformance_tests) makes one test per property instead.
//!
//! [`cut`](cut()) drops a future at any place where it can wait, to see what it leaves behind.
//!
//! The stores of idempotent outcomes have a suite and a script of their own, in `records` (feature
//! `idempotency`).

// Files:
//
// - `subject`: the store that the suite is run on. `any`: its backend without its type.
// - `conformance`: the suite. `records`: that of record stores.
// - `answered`: a store that is asked again where it says that its trouble passes.
// - `scripted`: a backend that answers as the test says. `cut`: futures that are dropped.

mod answered;
mod any;
pub mod conformance;
mod cut;
#[cfg(feature = "idempotency")]
pub mod records;
pub mod scripted;
mod subject;

/// As if the machine had been suspended for so long, for the whole process. Its clocks go on where
/// they stood, and the clock that they are compared with knows better. A process notices within 1
/// ms of its own time.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn suspend(time: std::time::Duration) {
    crate::ground::suspended::pretend(time);
}

/// From here on, and until the answer is dropped, what this thread polls counts as polled by the
/// conductor of a client. A store sends that over connections of its own, which it makes here.
#[must_use = "it ends with this"]
pub fn as_conductor() -> impl Drop {
    crate::ground::background::enter()
}

pub use any::{AnyBackend, AnyClaim};
pub use cut::{Cut, cut};
pub use scripted::{Act, Call, Reply, Script, Scripted, Verb};
pub use subject::{BoxFuture, Subject};
