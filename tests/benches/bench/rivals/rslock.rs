//! `rslock` as its documentation uses it, with its own retries.

use rslock::LockManager;

use super::{LEASE, Rival};

#[derive(Clone)]
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(url: &str) -> Self {
        Self::at(&[url.to_owned()])
    }

    /// At a majority of servers.
    pub(crate) fn at(urls: &[String]) -> Self {
        Rslock(LockManager::new(urls.iter().map(String::as_str).collect()))
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
