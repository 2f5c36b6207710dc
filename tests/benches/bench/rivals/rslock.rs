//! `rslock` as its documentation uses it, with its own retries.

use rslock::LockManager;

use super::{LEASE, Rival};

#[derive(Clone)]
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(url: &str) -> Self {
        Rslock(LockManager::new(vec![url]))
    }
}

impl Rival for Rslock {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let guard = self.0.acquire(key.as_bytes(), LEASE).await.expect("a lease in range");
        held().await;
        guard.release().await;
    }
}
