//! An application that is blocked, and a conductor that is not.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lock_core::backend::{Backend, ClaimId, Mode, Redis, Terms};
use lock_core::test_util::as_conductor;
use lock_core::{Key, Replicas};
use tests::wait::within;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub(crate) type Claim = <Redis as Backend>::Claim;

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A thread that drives a runtime, and blocks it, or not.
pub(crate) struct Application {
    gate: mpsc::Sender<()>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Application {
    /// Has `begin` done by its runtime, which is blocked from then on.
    pub(crate) fn blocked_after<T, F>(begin: F) -> (T, Self)
    where
        T: Send + 'static,
        F: AsyncFnOnce() -> T + Send + 'static,
    {
        let (made, begun) = mpsc::channel();
        let (gate, opened) = mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            runtime().block_on(async {
                made.send(begin().await).expect("somebody who waits for it");
                // Nothing else runs in this runtime meanwhile.
                opened.recv().expect("a gate");
                drop(ended.await);
            });
        });
        let begun = begun.recv().expect("no panic");
        (begun, Self { gate, end: Some(end), thread: Some(thread) })
    }

    /// Its runtime runs again.
    pub(crate) fn let_go(&self) {
        self.gate.send(()).expect("it waits for this");
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.gate.send(());
        drop(self.end.take());
        let _ = self.thread.take().expect("it is joined once").join();
    }
}

/// Has this done by the conductor of a client, on this thread.
pub(crate) fn conduct<T>(work: impl Future<Output = T>) -> T {
    let _here = as_conductor();
    runtime().block_on(within("what the conductor does", work))
}

pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn claim(backend: &Redis, key: &str, replicas: Option<Replicas>) -> Claim {
    let (mode, patience, name) = (Mode::Exclusive, None, None);
    let terms = Terms { lease: LEASE, mode, fences: 8, patience, name, replicas };
    let id = ClaimId::from_bits(fastrand::u128(..));
    backend.claim(&Key::new(key).expect("a key"), id, terms)
}
