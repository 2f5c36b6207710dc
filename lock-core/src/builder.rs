//! One acquire: what to lock, on which terms, and in which manner.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Acquire, CutWatch, LockScope, OneKey, Plan, Shared};
use crate::error::{AcquireError, LostError, RunError};
use crate::lockable::{Held, Lockable};
use crate::options::{Fairness, LockOptions};

/// An acquire in the making, of one key or of several; see [`LockOptions`] for the defaults and
/// bounds. Await it, or call [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire) or
/// [`run`](Self::run).
///
/// | made by | its type | gives |
/// |---|---|---|
/// | [`LockClient::lock`](crate::LockClient::lock) | `LockBuilder` | a [`LockGuard`](crate::LockGuard) |
/// | [`LockClient::lock_all`](crate::LockClient::lock_all) | `LockBuilder<KeySet>` | a [`MultiLockGuard`](crate::multi::MultiLockGuard) |
///
/// All options are for both; of several keys each has the same. See [`multi`](crate::multi) for the
/// rules of several keys.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked until this is awaited"]
pub struct LockBuilder<K: Lockable = OneKey> {
    plan: Plan,
    what: K,
}

impl<K: Lockable> LockBuilder<K> {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, what: K) -> Self {
        let options = shared.defaults;
        Self { plan: Plan::new(shared, options), what }
    }

    /// How long one try may wait, for all keys together (default 10 s); zero never waits.
    #[inline]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.plan.options.wait = wait;
        self
    }

    /// How many further tries follow one whose wait ran out, or that met a fault of the store that
    /// may pass (default 0). Each comes after a jittered pause. The budget is `wait * (1 + retries)`, pauses
    /// included; under [`admission`](Self::admission) it is one wait. See [`LockOptions::retries`].
    #[inline]
    pub fn retries(mut self, retries: u32) -> Self {
        self.plan.options.retries = retries;
        self
    }

    /// How long the grant lives at the store without a renewal (default 10 s); it is renewed at a
    /// third of this.
    /// A process has one claim on a key, which may have a longer lease than this and never has a
    /// shorter one, see [`LockOptions::lease`].
    #[inline]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.plan.options.lease = lease;
        self
    }

    /// Shares the key with all others who do: many readers, or one writer. See
    /// [`LockOptions::shared`].
    #[doc(alias("rwlock", "readers"))]
    #[inline]
    pub fn shared(mut self) -> Self {
        self.plan.options = self.plan.options.shared();
        self
    }

    /// Takes one of so many permits of the key (1 to 1,024): at most so many hold it at once, over
    /// all processes. See [`LockOptions::permits`] and [`LockHandle::slot`](crate::LockHandle::slot).
    #[doc(alias = "semaphore")]
    #[inline]
    pub fn permits(mut self, of: u32) -> Self {
        self.plan.options = self.plan.options.permits(of);
        self
    }

    /// How long the guard may live at all (1 ms to 24 h; default: no limit); then it is told that it
    /// is lost, and the lock is handed on. The work may still be running: see
    /// [`LockHandle::token`](crate::LockHandle::token).
    ///
    /// With several keys it counts from when the guard has all. If its holder does not let go then,
    /// the keys that were had earlier are handed on later, by what was left of the `wait` when they
    /// were had.
    #[inline]
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.plan.options.hold_limit = Some(limit);
        self
    }

    /// How long an idle lease is kept after the release, so that this process can have it again
    /// without a round trip (default 0, to 24 h). It is given back at once when another process
    /// wants it, or somebody here who asks for a longer lease or more replicas, and when
    /// the last clone of the client is dropped. See [`LockOptions::linger`].
    #[inline]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.plan.options.linger = linger;
        self
    }

    /// How long the key stays taken from the grant on, however soon the guard goes (default 0, to
    /// 23 h or about what the store allows for a lease): for a job that runs once per interval. See
    /// [`LockOptions::min_hold`].
    #[doc(alias = "lockAtLeastFor")]
    #[inline]
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.plan.options.min_hold = min_hold;
        self
    }

    /// How to share the key with other processes.
    #[inline]
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.plan.options.fairness = fairness;
        self
    }

    /// Whether to be refused at once when waiting is of no use, see
    /// [`LockOptions::admission`].
    #[inline]
    pub fn admission(mut self, admission: bool) -> Self {
        self.plan.options.admission = admission;
        self
    }

    /// By how many replicas of the store a grant must be acknowledged within `timeout` before it
    /// counts (none by default, and with 0), see [`LockOptions::replicas`].
    #[inline]
    pub fn replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.plan.options = self.plan.options.with_replicas(count, timeout);
        self
    }

    /// The purpose of the acquire. Operators see it where the store has a place for it (memory;
    /// ZooKeeper: the data of the claim's node; etcd: the value of its key; a database: the column
    /// `about`; Redis: a key of its own, where the hold lasts). At most 128 bytes, no control
    /// characters.
    #[inline]
    pub fn name(mut self, name: &'static str) -> Self {
        self.plan.options.name = Some(name);
        self
    }

    /// Whether to re-enter a hold of the key that the running code is called under (default: yes).
    /// It is then under the terms of that hold, see [`LockScope`](crate::scope::LockScope).
    #[inline]
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.plan.options.reentrant = reentrant;
        self
    }

    /// Joins the line of a key only if fewer than so many wait in it, and is refused at once
    /// otherwise (default: no bound of its own). Zero is taken for 1. All who wait through the
    /// client count. Each try counts them anew, as it joins the line anew.
    ///
    /// The client has a bound of its own,
    /// [`waiters_per_key_max`](crate::ClientBuilder::waiters_per_key_max); the lower one decides.
    /// The error is [`Overloaded`](AcquireError::Overloaded) for both, and
    /// [`is_waiters_max`](crate::error::OverloadedError::is_waiters_max) says that it was this one.
    #[inline]
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.plan.waiters_max = Some(waiters.max(1));
        self
    }

    /// Asks `gate` before each retry; where it says no, the acquire ends with the error of its last
    /// try. For a budget that many acquires pay their retries from.
    #[inline]
    pub fn retry_while(mut self, gate: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        self.plan.gate = Some(gate);
        self
    }

    /// Replaces all choices at once that [`LockOptions`] has: all but
    /// [`waiters_max`](Self::waiters_max) and [`retry_while`](Self::retry_while).
    #[inline]
    pub fn options(mut self, options: LockOptions) -> Self {
        self.plan.options = options;
        self
    }

    /// Waits for the lock, or for all of them, within the budget.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`]; the input is checked at the first poll, before anything is sent.
    ///
    /// With several keys it is that of the key that could not be had, and a
    /// [`Timeout`](AcquireError::Timeout) tells the times of the whole. The locks that were taken
    /// by then are given up, the last one first, before it is returned; what the store has not
    /// answered when the budget ends goes on in the background. It is
    /// [`Unavailable`](AcquireError::Unavailable) also when a lock was lost while the others were
    /// waited for. For no keys, or too many, it is
    /// [`Rejection::KeyCount`](crate::error::Rejection::KeyCount).
    ///
    /// # Cancel safety
    ///
    /// See [`Acquire`](crate::futures::Acquire) and [`MultiAcquire`](crate::futures::MultiAcquire).
    #[inline]
    pub fn acquire(self) -> K::Acquire {
        self.what.begin(self.plan)
    }

    /// Takes the lock if it is free, or all of them if all are, without standing in line; `None` if
    /// one is not, and those before it are given back. The store is asked at most once for each key,
    /// and has 2 s to answer for all. `wait` and `retries` do not count.
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
    pub async fn try_acquire(mut self) -> Result<Option<K::Guard>, AcquireError> {
        self.plan.options.wait = Duration::ZERO;
        self.plan.options.retries = 0;
        if_free(self.acquire().await)
    }

    /// Waits for the lock, or for all of them, then runs `work` under it. An acquire of the same key
    /// that `work` calls re-enters the hold. When the lock, or one of them, is lost, the work is
    /// dropped at its next await, before it does anything more; then the lock is released.
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when the lock was lost
    /// before the work had ended; it says which.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work, then releases the lock in the background.
    pub async fn run<F, Fut, T>(self, work: F) -> Result<T, RunError>
    where
        F: FnOnce(K::Handle) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let handle = guard.handle();
        let scope = guard.scope_in(LockScope::current()).expect("a guard has one key at least");
        let work = scope.run(work(handle.clone()));
        let output = until_lost(guard.lost(), || K::Guard::why_lost(&handle), work).await?;
        // The work is done; what the store answers cannot change that any more.
        drop(guard.release().await);
        Ok(output)
    }
}

impl LockBuilder {
    /// Takes the key from whoever holds it, ahead of all who wait: for an operator's tool, where a
    /// holder hangs and the work cannot wait for its lease. It is had alone, under a token greater
    /// than all before.
    ///
    /// Those who held it are told that their hold is [lost](crate::LockGuard::lost), at once or at
    /// their next renewal. What they do until then is kept out by the
    /// [token](crate::LockHandle::token) alone. Those who wait keep their places, behind this hold;
    /// tasks that wait in an old holder's process join the end of the line. The store is asked once;
    /// `wait` and `retries` are for its faults. It does not [`linger`](Self::linger).
    ///
    /// Not all stores can ([`Capabilities::force_acquire`](crate::backend::Capabilities)). At those
    /// whose line is one of nodes in their order, ZooKeeper and etcd, and at a quorum, nobody gets
    /// ahead of who waits: [`force_release`](crate::LockClient::force_release) frees a key there.
    ///
    /// ```
    /// # use lock_core::LockClient;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockClient::connect("memory:").await?;
    /// let stuck = locks.lock("report").await?;
    /// let guard = locks.lock("report").name("repair").force_acquire().await?;
    /// assert!(guard.token() > stuck.token());
    /// stuck.lost().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Rejection::Unsupported`](crate::error::Rejection) where the
    /// store cannot, and [`Rejection::Forced`](crate::error::Rejection) for a mode that is shared.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives the key to the next in line. Its holders may have lost it by then.
    pub fn force_acquire(self) -> Acquire {
        let Self { plan, what: OneKey(key) } = self;
        Acquire::new(plan, key).forcing()
    }
}

impl<K: Lockable> IntoFuture for LockBuilder<K> {
    type Output = Result<K::Guard, AcquireError>;
    type IntoFuture = K::Acquire;

    #[inline]
    fn into_future(self) -> K::Acquire {
        self.acquire()
    }
}

/// The result of a try that does not wait: nothing where others have it.
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
