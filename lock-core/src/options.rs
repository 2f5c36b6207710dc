//! The choices of one acquire, and those of a client that have a type of their own.
//!
//! [`LockOptions`] has the table of defaults and bounds; the bounds are constants in
//! [`limits`](crate::limits).

use std::time::Duration;

pub use crate::backend::Replicas;
use crate::mode::Mode;

/// How a process shares a key that other processes wait for.
///
/// As long as nobody else waits, a process passes the lock on between its own tasks in their
/// order of arrival, whatever is chosen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fairness {
    /// Once another process waits, at most this many more hand-offs inside this process, and
    /// none that starts later than `slice` after the wish became known.
    Batched {
        /// Hand-offs inside this process (default 64).
        handoffs: u32,
        /// Time for them (default 20 ms).
        slice: Duration,
    },
    /// Every release goes to the longest waiting process: the order of arrival over all
    /// processes, as far as the store promises one ([`Capabilities::fifo`](crate::backend::Capabilities)).
    Strict,
}

impl Default for Fairness {
    fn default() -> Self {
        Self::Batched { handoffs: 64, slice: Duration::from_millis(20) }
    }
}

impl Fairness {
    /// The bounds as numbers: hand-offs, and the time for them.
    pub(crate) fn bounds(self) -> (u32, Duration) {
        match self {
            Self::Batched { handoffs, slice } => (handoffs, slice),
            Self::Strict => (0, Duration::ZERO),
        }
    }
}

/// The place where a client does what no caller waits for: renewals, the release of dropped guards,
/// and whatever a blocked caller leaves undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Background {
    /// On a thread of its own, `lock-conductor`, with a small Tokio runtime of its own. It starts
    /// with the first lock that is taken or waited for, sleeps while nothing is due, and ends with
    /// the client. A blocked or starved runtime of the application loses no lease. The default,
    /// but for stores in this process.
    Thread,
    /// In a task of the caller's runtime, while something is busy and up to 50 ms longer. For tests
    /// on a paused clock, which belongs to one runtime, and for stores in this process, which need
    /// no I/O. A runtime that is blocked for longer than a lease loses it. Connections and sessions
    /// of stores live on threads of this library all the same, and no such task is begun there:
    /// where a store's thread has something to be done, it is done in the runtime that the client
    /// was made in.
    ///
    /// The task moves to the thread of [`Thread`](Self::Thread), and stays there, with the first caller
    /// who waits without a runtime. Where its runtime has ended, the next call in another one starts it
    /// there: until then nobody renews what is held elsewhere. A runtime that lives, and that nobody
    /// drives, renews nothing either.
    ///
    /// # A paused clock
    ///
    /// It is for stores in this process: `memory:`, and a backend of your own without I/O. Over a
    /// server it fails, here and with [`Thread`](Self::Thread). Tokio sets a paused clock forward as
    /// soon as all tasks wait, and does not count an answer that is on its way: the 2 s of a request
    /// are over at once, and a healthy server "did not answer within 2s". The lease at the server
    /// goes on by the real clock meanwhile, and so does the conductor on its thread. Test over a
    /// server on a real clock.
    Runtime,
}

/// The choices of one acquire, with the defaults of this crate.
///
/// | option | default | bounds |
/// |---|---|---|
/// | `mode` | exclusive | what the store serves ([`Capabilities::shared`](crate::backend::Capabilities)) |
/// | `wait` | 10 s | 0 (never wait) to 24 h |
/// | `retries` | 0 | at most 1,000 |
/// | `lease` | 10 s | what the store can renew ([`Capabilities::lease_min`](crate::backend::Capabilities)) to 24 h, or what it allows ([`Capabilities::lease_max`](crate::backend::Capabilities)) |
/// | `hold_limit` | none | 1 ms to 24 h |
/// | `linger` | 0 | to 24 h |
/// | `min_hold` | 0 | to 23 h 37 min, or about what the store allows for a lease; for one key, and not for one who shares it |
/// | `fairness` | 64 hand-offs or 20 ms | |
/// | `admission` | false | |
/// | `replicas` | none | 1 to 32 within 1 ms to 1 s and half of the lease, where [`Capabilities::replicas`](crate::backend::Capabilities) holds |
/// | `name` | none | at most 128 bytes, no control characters |
/// | `reentrant` | true | counts only under a hold of the key, see [`LockScope`](crate::scope::LockScope) |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOptions {
    /// The mode: to hold the key alone, or beside others who [share](Self::shared) it.
    pub mode: Mode,
    /// How long one try may wait for the lock.
    pub wait: Duration,
    /// How many further tries follow one whose `wait` ran out, or that met a fault of the store
    /// that may pass. Each comes after a jittered pause of 25 ms to 1 s, at most half of what is
    /// left of the budget. Pauses are a part of the budget, so there may be fewer tries; with a
    /// `wait` of zero there is one.
    pub retries: u32,
    /// How long a grant lives at the store without a renewal; renewed at a third of it.
    ///
    /// A process has one claim on a key, with the lease of the waiter that opened it. It is handed
    /// on to those who ask for as much or less. It is given back, and opened anew, for one that
    /// asks for more, also while it lingers. What is handed on here has at least half of the lease
    /// left: with less, as after renewals that failed, it is renewed first. An acquire that
    /// re-enters a hold is under the lease of that, see [`LockScope`](crate::scope::LockScope).
    ///
    /// A grant that another process handed on at Redis is good for 1.5 s at most until its first
    /// renewal, which is due at a third of that. The same holds for those here that it is handed on
    /// to before that renewal. So a process that dies on the way keeps nobody waiting for longer.
    pub lease: Duration,
    /// How long one guard may live at all, from its grant on; then it is told that it is lost.
    pub hold_limit: Option<Duration>,
    /// How long an idle lease is kept after the last release in this process. It is given back
    /// sooner
    ///
    /// - when another process stands in line for the key;
    /// - when a `try_acquire` elsewhere finds the key busy, so that the next one has it. That is told
    ///   in this process and at Redis, where one has the key. At ZooKeeper and in a quorum a
    ///   try leaves no trace;
    /// - when somebody here asks for a longer lease or more replicas than it has;
    /// - when the last clone of the client is dropped, or the client is
    ///   [shut down](crate::LockClient::shutdown).
    ///
    /// A process that ends gives nothing back, also where `main` drops its client: nobody waits for
    /// the request that does. Then the key is busy until the lease ends. Await a shutdown at the end
    /// of `main`.
    pub linger: Duration,
    /// How long the key stays taken from the grant on, however soon its holder lets go: for nobody
    /// here or elsewhere, until then. A job on a schedule so runs once per interval, though it is
    /// short and the clocks of its replicas differ.
    ///
    /// The lease is longer than that, so the key stays taken where the process dies. (A grant that
    /// was handed on has to be renewed first, see [`lease`](Self::lease).) A client that is
    /// [shut down](crate::LockClient::shutdown) or dropped leaves a key that rests to its lease. At
    /// ZooKeeper and etcd the key is free then, or with the session of a process that dies. An
    /// operator's
    /// [`request_revoke`](crate::LockClient::request_revoke) and
    /// [`force_release`](crate::LockClient::force_release) end a rest, and so does a
    /// [downgrade](crate::LockGuard::downgrade). A grant that its acquire did not take, as it was
    /// dropped, does not rest. A re-entry is under the terms of its hold.
    ///
    /// It is for one key: several at once are refused, as are those who share a key.
    pub min_hold: Duration,
    /// How to share the key with other processes.
    pub fairness: Fairness,
    /// Whether to be refused with [`Overloaded`](crate::AcquireError::Overloaded) at once when
    /// waiting is of no use, by how long those before it held the key.
    ///
    /// The budget `wait * (1 + retries)` is then one wait in one place, and the hold has to fit
    /// into it as well. A grant is passed on if it leaves less of the budget than half of the holds
    /// of late took. `retries` are for faults of the store alone. Where a hold takes more than half
    /// of the budget, the budget bounds the wait alone.
    pub admission: bool,
    /// By how many replicas of the store a grant must be acknowledged before it counts. A grant
    /// that is not is given back, and the acquire fails with
    /// [`NotReplicated`](crate::AcquireError::NotReplicated); `retries` try again.
    ///
    /// It is for a store that can lose its last writes in a failover. A grant that one replica
    /// acknowledged is not lost if that replica is promoted; one that all replicas acknowledged is
    /// not lost whichever is promoted. It does not make a failover safe in every case, see
    /// [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// The replicas have their time, or three quarters of what is left of the `wait` if that is
    /// less, so that there is an answer to tell of. Only a grant by the store waits: hand-offs
    /// inside a process and renewals do not. All acquires of a key in one process had better agree.
    /// A claim is opened as the first in line wants it, and is given back when the next in line
    /// wants more. An acquire that is called under a hold whose grant fewer replicas acknowledged
    /// is refused at once, with the same error.
    pub replicas: Option<Replicas>,
    /// The purpose of the acquire. Operators see it where the store has a place for it, see
    /// [`LockBuilder::name`](crate::LockBuilder::name). A process has one claim on a key: it has the name of the
    /// waiter that opened it.
    pub name: Option<&'static str>,
    /// Whether an acquire that is called under a hold of its key re-enters that, see
    /// [`LockScope`](crate::scope::LockScope).
    pub reentrant: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Exclusive,
            wait: Duration::from_secs(10),
            retries: 0,
            lease: Duration::from_secs(10),
            hold_limit: None,
            linger: Duration::ZERO,
            min_hold: Duration::ZERO,
            fairness: Fairness::default(),
            admission: false,
            replicas: None,
            name: None,
            reentrant: true,
        }
    }
}

impl LockOptions {
    /// The defaults, see the table at [`LockOptions`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares the key with all others who do: many readers, or one writer. Who waits is served in
    /// order of arrival, so no stream of readers starves a writer.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// Takes one of so many permits of the key (1 to 1,024), beside others who do: at most so many
    /// hold it at once, over all processes. All have to say the same number as long as any is held
    /// or waited for: another is refused, with
    /// [`Rejection::OtherLimit`](crate::error::Rejection::OtherLimit).
    #[must_use]
    pub fn permits(mut self, of: u32) -> Self {
        self.mode = Mode::Permit { of };
        self
    }

    /// Replaces [`wait`](Self::wait).
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Replaces [`retries`](Self::retries).
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Replaces [`lease`](Self::lease).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets [`hold_limit`](Self::hold_limit).
    #[must_use]
    pub fn with_hold_limit(mut self, limit: Duration) -> Self {
        self.hold_limit = Some(limit);
        self
    }

    /// Replaces [`linger`](Self::linger).
    #[must_use]
    pub fn with_linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Replaces [`min_hold`](Self::min_hold).
    #[must_use]
    pub fn with_min_hold(mut self, min_hold: Duration) -> Self {
        self.min_hold = min_hold;
        self
    }

    /// Replaces [`fairness`](Self::fairness).
    #[must_use]
    pub fn with_fairness(mut self, fairness: Fairness) -> Self {
        self.fairness = fairness;
        self
    }

    /// Replaces [`admission`](Self::admission).
    #[must_use]
    pub fn with_admission(mut self, admission: bool) -> Self {
        self.admission = admission;
        self
    }

    /// Sets [`replicas`](Self::replicas): `count` of them within `timeout`; none with 0.
    #[must_use]
    pub fn with_replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.replicas = (count > 0).then_some(Replicas { count, timeout });
        self
    }

    /// The longest that an acquire may take, `wait * (1 + retries)`: the tries and the pauses
    /// between them. It is zero where `wait` is; the one try has 2 s for the answer of the store then.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.wait.saturating_mul(self.retries.saturating_add(1))
    }

    /// Sets [`name`](Self::name).
    #[must_use]
    pub fn with_name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Replaces [`reentrant`](Self::reentrant).
    #[must_use]
    pub fn with_reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = reentrant;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_tables() {
        let ten = Duration::from_secs(10);
        let options = LockOptions::new();
        assert_eq!((options.wait, options.retries, options.lease), (ten, 0, ten));
        let zero = Duration::ZERO;
        assert_eq!((options.hold_limit, options.linger, options.min_hold), (None, zero, zero));
        assert_eq!(options.fairness.bounds(), (64, Duration::from_millis(20)));
        assert_eq!((options.admission, options.replicas, options.name), (false, None, None));
        assert!(options.reentrant);
    }
}
