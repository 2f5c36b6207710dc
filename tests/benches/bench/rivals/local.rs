//! Locks of Tokio, which do not leave the process.

use std::sync::Arc;

use tokio::sync::{Mutex, RwLock, Semaphore};

use super::{PERMITS, Rival};

/// One mutex for every key: only works with one key measure it.
#[derive(Clone, Default)]
pub(crate) struct TokioMutex(Arc<Mutex<()>>);

impl Rival for TokioMutex {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        _key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let guard = self.0.lock().await;
        held().await;
        drop(guard);
    }
}

/// Either side of one read-write lock for every key.
#[derive(Clone, Default)]
pub(crate) struct TokioRwLock {
    lock: Arc<RwLock<()>>,
    writes: bool,
}

impl TokioRwLock {
    /// The writer's side of the same lock.
    pub(crate) fn writer(&self) -> Self {
        Self { lock: self.lock.clone(), writes: true }
    }
}

impl Rival for TokioRwLock {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        _key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        if self.writes {
            let guard = self.lock.write().await;
            held().await;
            drop(guard);
        } else {
            let guard = self.lock.read().await;
            held().await;
            drop(guard);
        }
    }
}

/// One semaphore for every key.
#[derive(Clone)]
pub(crate) struct TokioSemaphore(Arc<Semaphore>);

impl Default for TokioSemaphore {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PERMITS as usize)))
    }
}

impl Rival for TokioSemaphore {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        _key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let permit = self.0.acquire().await.expect("it is never closed");
        held().await;
        drop(permit);
    }
}
