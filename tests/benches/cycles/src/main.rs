//! Acquire and release on a runtime of one thread, so many times and nothing else.
//!
//! `cycles RIVAL COUNT URL`; for `tests/benches/instructions`, which runs this under callgrind for
//! two counts: what the longer run takes more than the shorter one is the price of its cycles,
//! without that of starting, connecting and ending.
//!
//! Everything is some fifty times as slow there, so no time limit may come into play: the locks
//! live for a minute, and connecting is tried again.

mod bare;

use std::time::Duration;

use bare::{OurScripts, SetAndDelete};
use lock_core::{LockClient, LockOptions};
use rslock::LockManager;

/// Free keys, each in its turn.
const KEYS: usize = 16;

const LEASE: Duration = Duration::from_secs(60);

/// How often connecting is tried: the client gives each try two seconds.
const CONNECTS_MAX: usize = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rival, count, url] = &arguments[..] else { panic!("cycles RIVAL COUNT URL") };
    let count = count.parse().expect("a number of cycles");
    let keys: Vec<String> = (0..KEYS).map(|key| format!("cycles:{key}")).collect();
    let keys = keys.iter().map(String::as_str).cycle().take(count);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        match rival.as_str() {
            "ours" => ours(url, keys).await,
            "our-scripts" => OurScripts::connect(url).await.run(keys).await,
            "set-and-delete" => SetAndDelete::connect(url).await.run(keys).await,
            "rslock" => rslock(url, keys).await,
            _ => panic!("no such rival: {rival}"),
        }
    });
}

async fn ours(url: &str, keys: impl Iterator<Item = &str>) {
    let locks = connect(url).await;
    for key in keys {
        let guard = locks.lock(key).acquire().await.expect("a grant within a minute");
        guard.release().await.expect("a held lock");
    }
}

async fn connect(url: &str) -> LockClient {
    let options = LockOptions::default().with_lease(LEASE).with_wait(LEASE);
    for _ in 1..CONNECTS_MAX {
        if let Ok(locks) = LockClient::builder(url).defaults(options).connect().await {
            return locks;
        }
    }
    LockClient::builder(url).defaults(options).connect().await.expect("a server")
}

async fn rslock(url: &str, keys: impl Iterator<Item = &str>) {
    let locks = LockManager::new(vec![url]);
    for key in keys {
        let guard = locks.acquire(key.as_bytes(), LEASE).await.expect("a lease in range");
        guard.release().await;
    }
}
