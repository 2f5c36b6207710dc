//! The holds that running code is called under, which it may re-enter, and those who want to know
//! whether work was cut.
//!
//! A scope is a chain of links. A hold hangs a link of its own under the current chain for what is
//! called under it. So re-entry follows calls and not tasks: two branches of one task are siblings,
//! whoever polls them. Each guard has one *turn*, which one call under it has at a time; the others
//! wait for it. A guard that goes closes its turn. A call under it that runs on is a stranger from
//! then on.
//!
//! A re-entry is under the terms of its hold: one claim, one lease, one hold limit. A longer
//! `lease` is not waited for, as the hold is renewed for as long as any of its guards is there.
//! `replicas` cannot be had later, as they acknowledge a grant: a re-entry that asks for more than
//! the hold's grant has is refused as `NotReplicated`, before it waits for a turn.
//!
//! The same chain has those who keep the outcome of work (`CutWatch`). A lock that stops its work
//! in the middle tells all of them, so an idempotent execution knows of it however its error was
//! converted on the way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;
use tokio::sync::TryAcquireError;
use tokio::task::futures::TaskLocalFuture;

use super::door::Door;
use super::held::Hold;
use crate::engine::key::Shared;
use crate::error::AcquireError;
use crate::key::Key;
use crate::options::LockOptions;

tokio::task_local! {
    static CURRENT: LockScope;
}

/// The holds that running code is called under. Acquiring the key of one of them again gives a
/// further guard of the same hold, with the same token. The lock is given up with the last of the
/// guards.
///
/// [`LockGuard::scope`](crate::LockGuard::scope) opens one, as [`run`](crate::LockBuilder::run),
/// `#[distributed_lock]` and `lock_tower::LockLayer` do for what runs under their lock. Two calls
/// under one guard do not run at the same time: the second waits for the first, within its budget.
/// A guard that is kept counts as a call that runs. To re-enter while it is there, call under it,
/// by its own `scope`.
///
/// A re-entry is under the terms of its hold: it has the hold's `lease` and `hold_limit`. The hold
/// is renewed for as long as any of its guards is there. One that asks for more
/// [`replicas`](crate::LockOptions::replicas) than acknowledged the hold's grant is refused at
/// once, with [`NotReplicated`](crate::AcquireError::NotReplicated): ask for them where the hold is
/// made. So is one that wants the key alone under a hold that shares it, with
/// [`Rejection::Upgrade`](crate::error::Rejection::Upgrade): it would wait for its own caller.
/// Under a hold that has the key alone, everything can be had.
///
/// A spawned task is outside unless it is given the scope:
///
/// ```
/// # use lock_core::scope::LockScope;
/// # use lock_core::LockClient;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockClient::memory();
/// let outer = locks.lock("order:42").await?;
/// let inner = outer.scope(async {
///     let scope = LockScope::current().expect("called under a hold");
///     tokio::spawn(scope.run(locks.lock("order:42").acquire())).await
/// });
/// assert_eq!(inner.await??.token(), outer.token());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LockScope {
    link: Arc<Link>,
}

#[derive(Debug)]
struct Link {
    what: What,
    outer: Option<LockScope>,
}

#[derive(Debug)]
enum What {
    Hold(Door),
    Watch(Arc<AtomicBool>),
}

/// How an acquire stands to the holds that it is called under.
pub(in crate::engine) enum Reentry {
    /// It is called under no hold of its key.
    Stranger,
    Entered(Hold),
    /// Another call under the same guard has its turn.
    Busy(Door),
    /// The hold has less than is asked for, and never gets more.
    Refused(Box<AcquireError>),
}

impl LockScope {
    /// The scope of the running code; `None` where it is called under no hold and no [`CutWatch`].
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

    /// The scope of what is called under `hold`, by code that is itself called under `outer`.
    pub(crate) fn under(hold: &Hold, outer: Option<Self>) -> Self {
        Self { link: Arc::new(Link { what: What::Hold(hold.door()), outer }) }
    }

    /// Re-enters the nearest hold on `key` that the running code is called under, if its guard is
    /// still there and the hold is good, and has the mode and the replicas that are asked for.
    pub(in crate::engine) fn reenter(
        shared: &Arc<Shared>,
        key: &Key,
        asked: &LockOptions,
        now: Instant,
    ) -> Reentry {
        let find = |scope: &Self| {
            scope.links().find_map(|link| {
                link.door().filter(|door| door.leads_to(shared, key, now)).cloned()
            })
        };
        loop {
            let Ok(Some(door)) = CURRENT.try_with(find) else { return Reentry::Stranger };
            // Before its turn: the wait for that would be in vain.
            if let Some(error) = door.refusal(asked) {
                return Reentry::Refused(Box::new(error));
            }
            match door.turn().try_acquire_owned() {
                Ok(permit) => match Hold::entered(&door, permit, asked.mode, now) {
                    Some(hold) => return Reentry::Entered(hold),
                    None if door.is_closed() => {}
                    // It may have been downgraded just now.
                    None => {
                        let refused = door.refusal(asked).map(Box::new);
                        return refused.map_or(Reentry::Stranger, Reentry::Refused);
                    }
                },
                Err(TryAcquireError::NoPermits) => return Reentry::Busy(door),
                // Its guard went just now: perhaps one further out is still there.
                Err(TryAcquireError::Closed) => {}
            }
        }
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        let first = Some(&*self.link);
        std::iter::successors(first, |link| link.outer.as_ref().map(|outer| &*outer.link))
    }
}

impl Link {
    fn door(&self) -> Option<&Door> {
        match &self.what {
            What::Hold(door) => Some(door),
            What::Watch(_) => None,
        }
    }
}

/// Learns whether work under a lock was cut: stopped in the middle, as its lock was lost.
///
/// It is for those who keep the outcome of work, as an idempotency layer does. An error that came
/// of a cut is no outcome, whatever type it was made into on its way. Locks inside of the future
/// that [`scope`](Self::scope) makes tell all watches that they are called under.
///
/// ```
/// # use std::{future::pending, time::Duration};
/// # use lock_core::scope::CutWatch;
/// # use lock_core::LockClient;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (locks, watch) = (LockClient::memory(), CutWatch::new());
/// let work = locks.lock("k").hold_limit(Duration::from_millis(1)).run(|_| pending::<()>());
/// assert!(watch.scope(work).await.is_err() && watch.has_seen_one());
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct CutWatch {
    seen: Arc<AtomicBool>,
}

impl CutWatch {
    /// A watch that has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a future under this watch, inside the current scope.
    ///
    /// # Cancel safety
    ///
    /// As that of the future.
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        let (what, outer) = (What::Watch(self.seen.clone()), LockScope::current());
        LockScope { link: Arc::new(Link { what, outer }) }.run(future)
    }

    /// Whether work was cut under this watch.
    #[must_use]
    pub fn has_seen_one(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }

    /// Tells all watches that the running code is called under. For a layer of your own that stops
    /// work in the middle.
    pub fn tell() {
        // Without a scope nobody watches.
        let _ = CURRENT.try_with(|scope| {
            for link in scope.links() {
                if let What::Watch(seen) = &link.what {
                    seen.store(true, Ordering::Release);
                }
            }
        });
    }
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
