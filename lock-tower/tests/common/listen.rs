//! What this thread logs, in a process where others log as well.

use std::sync::Once;

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

/// Lets `subscriber` have what this thread logs, until the guard is dropped.
///
/// As long as tracing knows of one subscriber at most, a thread that comes to a line first asks its
/// own alone whether that line is wanted, and its answer is kept for all. With two more that never
/// go, all are asked each time.
pub(crate) fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static ALL_ARE_ASKED: Once = Once::new();
    ALL_ARE_ASKED.call_once(|| {
        for _ in 0..2 {
            std::mem::forget(Dispatch::new(NoSubscriber::new()));
        }
    });
    tracing::subscriber::set_default(subscriber)
}
