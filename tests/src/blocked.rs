//! Workers and runtimes of an application that do not come to run anything. "Blocked" is a thread
//! that waits for a gate, so it lasts for as long as a test needs.

use std::future::Future;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use lock_core::{AcquireError, LockGuard};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::wait::within;

/// A runtime with so many workers.
///
/// # Panics
///
/// Where there is no thread for it.
#[must_use]
pub fn workers(n: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(n).enable_all().build().expect("a runtime")
}

/// A runtime of one thread, that of whoever drives it.
///
/// # Panics
///
/// Where it cannot be made.
#[must_use]
pub fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A worker that is blocked until this is dropped.
#[derive(Debug)]
pub struct BlockedWorker<T> {
    gate: mpsc::Sender<()>,
    values: mpsc::Receiver<T>,
}

impl<T: Send + 'static> BlockedWorker<T> {
    /// Has `work` done by a task of `runtime`, which does not yield behind it until this ends.
    ///
    /// # Panics
    ///
    /// If the work does.
    #[must_use]
    pub fn after(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> Self {
        let (gate, blocked) = mpsc::channel::<()>();
        let (done, values) = mpsc::channel();
        let (there, is_there) = mpsc::channel();
        drop(runtime.spawn(async move {
            let value = work.await;
            there.send(()).expect("the test goes on");
            // Until the gate is dropped.
            let _ = blocked.recv();
            drop(done.send(value));
        }));
        is_there.recv().expect("it blocks");
        Self { gate, values }
    }

    /// Unblocks it, and gives what the work came to.
    ///
    /// # Panics
    ///
    /// If its runtime is gone.
    pub fn end(self) -> T {
        drop(self.gate);
        self.values.recv().expect("what was done")
    }
}

/// Lets a guard go, and does not yield behind that.
pub type LetsGo = fn(&Runtime, LockGuard) -> BlockedWorker<()>;

/// By a drop, and by a release that is awaited.
pub const LETS_GO: [LetsGo; 2] = [
    |runtime, guard| BlockedWorker::after(runtime, async { drop(guard) }),
    |runtime, guard| {
        BlockedWorker::after(runtime, async { guard.release().await.expect("a release") })
    },
];

/// The grant that comes next, awaited in a runtime of its own.
///
/// # Panics
///
/// If there is none in time.
pub fn next_grant(next: impl Future<Output = Result<LockGuard, AcquireError>>) -> LockGuard {
    alone().block_on(async { within("the next grant", next).await.expect("a grant") })
}

/// A thread that drives a runtime, and blocks it, or not. Its runtime ends with this.
#[derive(Debug)]
pub struct Application {
    gate: mpsc::Sender<()>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Application {
    /// Has `begin` done by its runtime, which is blocked from then on.
    ///
    /// # Panics
    ///
    /// If the work does.
    pub fn blocked_after<T, F>(begin: F) -> (T, Self)
    where
        T: Send + 'static,
        F: AsyncFnOnce() -> T + Send + 'static,
    {
        let (made, begun) = mpsc::channel();
        let (gate, opened) = mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            alone().block_on(async {
                made.send(begin().await).map_err(drop).expect("somebody who waits for it");
                // Nothing else runs in this runtime meanwhile.
                opened.recv().expect("a gate");
                drop(ended.await);
            });
        });
        let begun = begun.recv().expect("no panic");
        (begun, Self { gate, end: Some(end), thread: Some(thread) })
    }

    /// Its runtime runs again.
    ///
    /// # Panics
    ///
    /// If its thread is gone.
    pub fn let_go(&self) {
        self.gate.send(()).expect("it waits for this");
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // It may run already.
        let _ = self.gate.send(());
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
