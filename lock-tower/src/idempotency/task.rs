//! Tasks that outlive the future of a request.

use std::future::Future;

use lock_core::scope::LockScope;
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Spawns with the tracing span and the lock scope of the running task: a lock layer around this
/// one has its scope, which a task leaves.
pub(super) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let future = future.in_current_span();
    match LockScope::current() {
        Some(scope) => tokio::spawn(scope.run(future)),
        None => tokio::spawn(future),
    }
}
