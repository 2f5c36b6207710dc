//! Reentrancy belongs to a logical task, not to a thread: the holds of one scope.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

use super::cell::Hold;
use super::shared::{Shared, lock};
use crate::key::Key;

tokio::task_local! {
    static CURRENT: LockScope;
}

/// Below this many entries, entries of holds that are gone are not looked for.
const SWEEP_FROM: usize = 8;

type Holds = HashMap<(usize, Key), Weak<Hold>>;

/// The locks that one logical task holds: inside it, acquiring a key again that it holds already
/// gives a further guard with the same token at once, and the lock is given up with the last.
///
/// A spawned task is outside unless it is given the scope:
///
/// ```
/// # use lock_core::{LockClient, LockScope};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockClient::memory();
/// locks.clone().scope(async move {
///     let outer = locks.lock("order:42").await?;
///     let scope = LockScope::current().expect("inside a scope");
///     let inner = tokio::spawn(scope.run(async move { locks.lock("order:42").await })).await??;
///     assert_eq!(inner.token(), outer.token());
///     Ok(())
/// })
/// .await
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct LockScope {
    holds: Arc<Mutex<Holds>>,
}

impl LockScope {
    /// A scope that holds nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The scope of the running task.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs a future inside this scope.
    ///
    /// # Cancel safety
    ///
    /// As that of the future; the scope outlives it.
    pub fn run<F: Future>(&self, future: F) -> Scoped<F> {
        Scoped { inner: CURRENT.scope(self.clone(), future) }
    }

    /// The hold of the running task's scope on `key`, if it is still good.
    pub(super) fn holds(shared: &Arc<Shared>, key: &Key) -> Option<Arc<Hold>> {
        let hold = CURRENT
            .try_with(|scope| lock(&scope.holds).get(&entry(shared, key)).and_then(Weak::upgrade))
            .ok()??;
        let now = super::clock::now();
        let held = hold.cell().cohort().held_until(hold.token().get(), now).is_some();
        held.then_some(hold)
    }

    pub(super) fn enter_hold(&self, shared: &Arc<Shared>, hold: &Arc<Hold>) {
        let mut holds = lock(&self.holds);
        if holds.len() >= SWEEP_FROM {
            holds.retain(|_, hold| hold.strong_count() > 0);
        }
        holds.insert(entry(shared, hold.cell().key()), Arc::downgrade(hold));
    }
}

/// A key of one client; another client's key of the same name is another lock.
fn entry(shared: &Arc<Shared>, key: &Key) -> (usize, Key) {
    (Arc::as_ptr(shared) as usize, key.clone())
}

pin_project! {
    /// A future inside a [`LockScope`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Scoped<F> {
        #[pin]
        inner: TaskLocalFuture<LockScope, F>,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().inner.poll(cx)
    }
}
