//! One acquire of several keys: what to lock together, on which terms, and in which manner.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use crate::builder::{if_free, until_lost};
use crate::engine::{KeySet, MultiAcquire, MultiLockGuard, MultiLockHandle, Shared};
use crate::error::{AcquireError, RunError};
use crate::options::{Fairness, LockOptions};

/// An acquire of several keys in the making, all or none; made by
/// [`LockClient::all`](crate::LockClient::all). Await it, or call [`acquire`](Self::acquire),
/// [`try_acquire`](Self::try_acquire) or [`run`](Self::run).
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = lock_core::LockClient::connect("memory:").await?; // or "redis://127.0.0.1"
/// let both = locks.all(["account:2", "account:1"]).wait(Duration::from_secs(2)).await?;
/// for (key, token) in both.keys().zip(both.tokens()) {
///     println!("write to {key} with token {token}");
/// }
/// assert!(both.token("account:1").is_some());
/// both.release().await?;
/// # Ok(()) }
/// ```
///
/// - There are 1 to [`KEYS_MAX`](crate::KEYS_MAX) (64) keys. They are taken one after the other, by
///   the order of the bytes of their encoded form, which is the same in every process, and each
///   once. So two who want the same keys never wait for each other, in whatever order they name
///   them.
/// - The options are those of a single key, with the same defaults and bounds: see [`LockOptions`].
///   Each key has the same, also [`shared`](Self::shared) and [`permits`](Self::permits).
/// - There is **one budget** for all, `wait * (1 + retries)`: each key has what the ones before have
///   left. A try that cannot have one of them gives up those that it has, and the next one begins
///   anew with the first.
/// - When it fails, the error says which key it was, and none stays held.
/// - A key that the running code is called under a hold of is re-entered, the others are taken. But
///   whoever takes further keys under a hold has left the order, so two who do may wait for each
///   other until their budgets end: take together what is needed together.
///
/// Several keys are no transaction: each has a fencing token of its own, and each resource checks
/// that of its key.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked until this is awaited"]
pub struct MultiLockBuilder {
    shared: Arc<Shared>,
    keys: KeySet,
    options: LockOptions,
}

impl MultiLockBuilder {
    pub(crate) fn new(shared: Arc<Shared>, keys: KeySet) -> Self {
        Self { options: shared.defaults, shared, keys }
    }

    /// How long one try may wait, for all keys together (default 10 s); zero never waits.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// How many further tries follow one that failed (default 0), each for all keys. See
    /// [`LockOptions::retries`].
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// How long a grant lives at the store without a renewal (default 10 s), see
    /// [`LockOptions::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Shares all keys with others who do, see [`LockOptions::shared`].
    pub fn shared(mut self) -> Self {
        self.options = self.options.shared();
        self
    }

    /// Takes one of so many permits of each key (1 to 1,024), see [`LockOptions::permits`].
    pub fn permits(mut self, of: u32) -> Self {
        self.options = self.options.permits(of);
        self
    }

    /// How long the guard may live at all (1 ms to 24 h; default: no limit), from when it has all keys; then it is
    /// told that it is lost. If its holder does not let go then, the keys that were had earlier are
    /// handed on later, by what was left of the `wait` when they were had.
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.options.hold_limit = Some(limit);
        self
    }

    /// How long each idle lease is kept after the release (default 0), see
    /// [`LockOptions::linger`].
    pub fn linger(mut self, linger: Duration) -> Self {
        self.options.linger = linger;
        self
    }

    /// How to share the keys with other processes, see [`Fairness`].
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.options.fairness = fairness;
        self
    }

    /// Whether to be refused at once when waiting for one of the keys is of no use (default: no),
    /// see [`LockOptions::admission`]. The budget is then one wait.
    pub fn admission(mut self, admission: bool) -> Self {
        self.options.admission = admission;
        self
    }

    /// By how many replicas each grant must be acknowledged within `timeout` (none by default, and
    /// with 0), see [`LockOptions::replicas`].
    pub fn replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.options = self.options.with_replicas(count, timeout);
        self
    }

    /// What the acquire is for, see [`LockOptions::name`].
    pub fn name(mut self, name: &'static str) -> Self {
        self.options.name = Some(name);
        self
    }

    /// Whether to re-enter a hold of one of the keys that the running code is called under
    /// (default: yes), see [`LockScope`](crate::LockScope).
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = reentrant;
        self
    }

    /// Replaces all choices at once.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// Waits for all the locks, within the budget.
    ///
    /// # Errors
    ///
    /// That of the key that could not be had, see [`AcquireError`]; a
    /// [`Timeout`](AcquireError::Timeout) tells the times of the whole. The locks that were taken by
    /// then are given up, the last one first, before it is returned; what the store has not
    /// answered when the budget ends goes on in the background. It is
    /// [`Unavailable`](AcquireError::Unavailable) also when a lock was lost while the others were
    /// waited for.
    ///
    /// The input is checked at the first poll, before anything is sent. For no keys, or too many, it
    /// is [`Rejection::KeyCount`](crate::Rejection::KeyCount).
    ///
    /// # Cancel safety
    ///
    /// See [`MultiAcquire`].
    pub fn acquire(self) -> MultiAcquire {
        MultiAcquire::new(self.shared, self.keys, self.options)
    }

    /// Takes all the locks if all are free, without standing in line; `None` if one is not, and
    /// those before it are given back. The store is asked for each key once at most, and has 2 s to
    /// answer for all of them. `wait` and `retries` do not count.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), without the time-out.
    ///
    /// # Cancel safety
    ///
    /// See [`MultiAcquire`].
    pub async fn try_acquire(mut self) -> Result<Option<MultiLockGuard>, AcquireError> {
        self.options.wait = Duration::ZERO;
        self.options.retries = 0;
        if_free(self.acquire().await)
    }

    /// Waits for all the locks, then runs `work` under them. An acquire of one of the keys that
    /// `work` calls re-enters its hold. When one of the locks is lost, the work is dropped at its
    /// next await, before it does anything more; then all are released.
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when a lock was lost
    /// before the work had ended, which says which.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work, then releases the locks in the background.
    pub async fn run<F, Fut, T>(self, work: F) -> Result<T, RunError>
    where
        F: FnOnce(MultiLockHandle) -> Fut,
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

impl IntoFuture for MultiLockBuilder {
    type Output = Result<MultiLockGuard, AcquireError>;
    type IntoFuture = MultiAcquire;

    fn into_future(self) -> MultiAcquire {
        self.acquire()
    }
}
