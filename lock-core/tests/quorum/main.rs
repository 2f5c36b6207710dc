//! A quorum of stores in this process, on a paused clock: the conformance suite, members that fail,
//! and tokens that grow whichever majority grants.

#![allow(clippy::disallowed_methods)] // the clock is paused

mod cancel;
mod conformance;
mod contention;
mod managed;
mod members;
mod panics;
mod polled;
mod tokens;

use std::time::Duration;

use lock_core::memory::Memory;
use lock_core::quorum::Quorum;
use lock_core::test_util::{Script, Scripted};
use lock_core::{LockClient, LockOptions};

/// The seed of tests of one thread, so that they draw the same each time.
const SEED: u64 = 27;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Stores that nobody shares, and a client of them whose requests follow one script a store.
struct Stage {
    stores: Vec<Memory>,
    scripts: Vec<Script>,
    locks: LockClient,
}

impl Stage {
    fn of(members: usize) -> Self {
        let stores: Vec<_> = (0..members).map(|_| Memory::new()).collect();
        let (locks, scripts) = client(&stores);
        Self { stores, scripts, locks }
    }

    /// Another process.
    fn another(&self) -> (LockClient, Vec<Script>) {
        client(&self.stores)
    }

    /// Nothing is left at any store.
    fn assert_clean(&self) {
        let keys: Vec<_> = self.stores.iter().map(Memory::keys).collect();
        assert!(keys.iter().all(|keys| *keys == 0), "{keys:?}");
    }
}

fn client(stores: &[Memory]) -> (LockClient, Vec<Script>) {
    let (members, scripts): (Vec<_>, Vec<_>) =
        stores.iter().map(|store| Scripted::new(store.clone())).unzip();
    let quorum = Quorum::new(members).expect("three or more stores that can be members");
    (LockClient::with_backend(quorum), scripts)
}

fn short() -> LockOptions {
    LockOptions::new().with_lease(ms(1_000)).with_wait(ms(5_000))
}
