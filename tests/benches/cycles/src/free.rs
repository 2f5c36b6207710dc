//! Acquire and release of free keys at a server.

use rslock::LockManager;

use crate::{LEASE, connect};

/// Free keys, each in its turn.
const KEYS: [&str; 16] = [
    "cycles:0", "cycles:1", "cycles:2", "cycles:3", "cycles:4", "cycles:5", "cycles:6", "cycles:7",
    "cycles:8", "cycles:9", "cycles:a", "cycles:b", "cycles:c", "cycles:d", "cycles:e", "cycles:f",
];

/// So many of them in all.
pub(crate) fn keys(count: usize) -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().cycle().take(count)
}

pub(crate) async fn ours(url: &str, count: usize) {
    let locks = connect(url).await;
    for key in keys(count) {
        let guard = locks.lock(key).acquire().await.expect("a grant within a minute");
        guard.release().await.expect("a held lock");
    }
}

pub(crate) async fn rslock(url: &str, count: usize) {
    let locks = LockManager::new(vec![url]);
    for key in keys(count) {
        let guard = locks.acquire(key.as_bytes(), LEASE).await.expect("a lease in range");
        guard.release().await;
    }
}
