//! The engine over a store that answers as the test says, on a paused clock.

#![allow(clippy::disallowed_methods)] // the clock is paused

mod admission;
mod bounds;
mod cancel;
mod election;
mod endless;
mod failing;
mod force;
mod kept;
mod lease;
mod line;
mod min_hold;
mod modes;
mod multi;
mod mute;
mod names;
mod prefix;
mod release;
mod revoke;
mod scale;
mod shutdown;
mod still;
mod terms;
mod tokens;

use std::time::Duration;

use lock_core::LockClient;
use lock_core::memory::Memory;
use lock_core::test_util::{Script, Scripted};
use tokio::time::Instant;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// One store, a client whose requests follow the script, and one whose requests are all served.
struct Stage {
    store: Memory,
    script: Script,
    locks: LockClient,
    rival: LockClient,
}

impl Stage {
    fn new() -> Self {
        let store = Memory::new();
        let (backend, script) = Scripted::new(store.clone());
        let locks = LockClient::with_backend(backend);
        let rival = LockClient::with_backend(store.clone());
        Self { store, script, locks, rival }
    }

    /// Nothing is left of anybody, neither here nor at the store, within `within`.
    async fn is_clean(&self, within: Duration) {
        for client in [&self.locks, &self.rival] {
            let report = client.shutdown(within).await;
            assert!(report.complete && report.abandoned == 0, "{report:?} {:?}", client.stats());
            let stats = client.stats();
            assert_eq!((stats.keys, stats.waiters, stats.held), (0, 0, 0));
        }
        assert_eq!(self.store.keys(), 0, "the store keeps a key");
    }
}

/// Lets all tasks run that can, without the clock going on.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// `at` is `expected` after `since`, to the resolution of Tokio's timers.
#[track_caller]
fn assert_after(since: impl Into<Instant>, at: impl Into<Instant>, expected: Duration) {
    let took = at.into().duration_since(since.into());
    assert!(took >= expected && took <= expected + ms(2), "{took:?} is not {expected:?}");
}
