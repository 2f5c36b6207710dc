//! What a lock costs that leaves no process.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::Rival;

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
