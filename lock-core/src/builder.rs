//! One acquire: what to lock, on which terms, and in which manner.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Acquire, CutWatch, Shared};
use crate::engine::{LockGuard, LockHandle};
use crate::error::{AcquireError, LostError, RunError};
use crate::key::{Key, KeyError};
use crate::options::{Fairness, LockOptions};

/// An acquire in the making; see [`LockOptions`] for the defaults and bounds. Await it, or call
/// [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire) or [`run`](Self::run).
#[derive(Debug, Clone)]
#[must_use = "nothing is locked until this is awaited"]
pub struct LockBuilder {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    options: LockOptions,
}

impl LockBuilder {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, key: Result<Key, KeyError>) -> Self {
        Self { options: shared.defaults, shared, key }
    }

    /// How long one try may wait; zero never waits.
    #[inline]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// How many further tries follow one whose wait ran out, or that met a fault of the store that
    /// may pass. Each comes after a jittered pause. The budget is `wait * (1 + retries)`, pauses
    /// included; under [`admission`](Self::admission) it is one wait. See [`LockOptions::retries`].
    #[inline]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// How long the grant lives at the store without a renewal; it is renewed at a third of this.
    /// A process has one claim on a key, which may have a longer lease than this and never has a
    /// shorter one, see [`LockOptions::lease`].
    #[inline]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Shares the key with all others who do: many readers, or one writer. See
    /// [`LockOptions::shared`].
    #[doc(alias("rwlock", "readers"))]
    #[inline]
    pub fn shared(mut self) -> Self {
        self.options = self.options.shared();
        self
    }

    /// Takes one of so many permits of the key: at most so many hold it at once, over all
    /// processes. See [`LockOptions::permits`] and [`LockGuard::slot`].
    #[doc(alias = "semaphore")]
    #[inline]
    pub fn permits(mut self, of: u32) -> Self {
        self.options = self.options.permits(of);
        self
    }

    /// How long the guard may live at all (1 ms to 24 h); then it is told that it is lost, and the
    /// lock is handed on. The work may still be running: see [`LockGuard::token`].
    #[inline]
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.options.hold_limit = Some(limit);
        self
    }

    /// How long an idle lease is kept after the release, so that this process can have it again
    /// without a round trip (default 0, to 24 h). It is given back at once when another process
    /// wants it, or somebody here who asks for a longer lease or more replicas, and when
    /// the last clone of the client is dropped. See [`LockOptions::linger`].
    #[inline]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.options.linger = linger;
        self
    }

    /// How to share the key with other processes.
    #[inline]
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.options.fairness = fairness;
        self
    }

    /// Whether to be refused at once when waiting is of no use, see
    /// [`LockOptions::admission`].
    #[inline]
    pub fn admission(mut self, admission: bool) -> Self {
        self.options.admission = admission;
        self
    }

    /// By how many replicas of the store a grant must be acknowledged within `timeout` before it
    /// counts (none by default, and with 0), see [`LockOptions::replicas`].
    #[inline]
    pub fn replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.options = self.options.with_replicas(count, timeout);
        self
    }

    /// What the acquire is for. Operators see it where the store has a place for it (ZooKeeper: the
    /// data of the claim's node; a database: the column `about`). At most 128 bytes, no control characters.
    #[inline]
    pub fn name(mut self, name: &'static str) -> Self {
        self.options.name = Some(name);
        self
    }

    /// Whether to re-enter a hold of the key that the running code is called under (default: yes).
    /// It is then under the terms of that hold, see [`LockScope`](crate::LockScope).
    #[inline]
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = reentrant;
        self
    }

    /// Replaces all choices at once.
    #[inline]
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// Waits for the lock, within the budget.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`]; the input is checked at the first poll, before anything is sent.
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`].
    #[inline]
    pub fn acquire(self) -> Acquire {
        Acquire::new(self.shared, self.key, self.options)
    }

    /// Takes the lock if it is free, without standing in line; `None` if it is not. The store is
    /// asked at most once, and has 2 s to answer. `wait` and `retries` do not count.
    ///
    /// It keeps a job from running beside itself, and not from running twice: a node whose timer
    /// comes when the first one has finished finds the lock free. A job that is to run once for each
    /// time at which it is due takes `#[idempotent]` with that time as its key.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), without the time-out.
    ///
    /// # Cancel safety
    ///
    /// A grant that was made meanwhile is given back.
    pub async fn try_acquire(mut self) -> Result<Option<LockGuard>, AcquireError> {
        self.options.wait = Duration::ZERO;
        self.options.retries = 0;
        if_free(self.acquire().await)
    }

    /// Waits for the lock, then runs `work` under it. An acquire of the same key that `work` calls
    /// re-enters the hold. When the lock is lost, the work is dropped at its next await, before it
    /// does anything more; then the lock is released.
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when the lock was lost
    /// before the work had ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work, then releases the lock in the background.
    pub async fn run<F, Fut, T>(self, work: F) -> Result<T, RunError>
    where
        F: FnOnce(LockHandle) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let handle = guard.handle();
        let work = guard.scope(work(handle.clone()));
        let output = until_lost(handle.lost(), || handle.why_lost(), work).await?;
        // The work is done; what the store answers cannot change that any more.
        drop(guard.release().await);
        Ok(output)
    }
}

impl IntoFuture for LockBuilder {
    type Output = Result<LockGuard, AcquireError>;
    type IntoFuture = Acquire;

    #[inline]
    fn into_future(self) -> Acquire {
        self.acquire()
    }
}

/// What a try comes to that does not wait: nothing where others have it.
pub(crate) fn if_free<T>(tried: Result<T, AcquireError>) -> Result<Option<T>, AcquireError> {
    match tried {
        Ok(held) => Ok(Some(held)),
        Err(AcquireError::Timeout(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs `work` as long as what it runs under is good. Each poll looks for the loss first, so that
/// work which was stopped past its lease does not go on. Who watches for cuts is told of one.
pub(crate) async fn until_lost<T>(
    lost: impl Future<Output = LostError>,
    why_lost: impl FnOnce() -> Option<LostError>,
    work: impl Future<Output = T>,
) -> Result<T, LostError> {
    let ended = tokio::select! {
        biased;
        lost = lost => Err(lost),
        // The last stretch of the work may have blocked past the lease.
        output = work => why_lost().map_or(Ok(output), Err),
    };
    ended.inspect_err(|_| CutWatch::tell())
}
