//! One election: whom to elect, and on which terms.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{DURATION_MAX, Fault, FaultKind};
use crate::builder::{if_free, until_lost};
use crate::engine::{LockHandle, Observe, RunFor, Shared, Term};
use crate::error::{AcquireError, OperatorError, RunError, UnavailableError};
use crate::key::{Key, KeyError};
use crate::limits::ELECTION_VALUE_BYTES_MAX;
use crate::options::LockOptions;
use crate::rejection::Rejection;
use crate::view::Leader;

/// An election: of all processes that run for it, one leads at a time; made by
/// [`LockClient::election`](crate::LockClient::election).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = lock_core::LockClient::connect("memory:").await?; // or "redis://127.0.0.1"
/// let election = locks.election("nightly");
///
/// // In each process that can lead.
/// let term = election.run_for("host-3").await?;
/// println!("leads under token {} until {:?} from now", term.token(), term.lease_left());
///
/// // In each that wants to know who does.
/// let mut leaders = election.observe();
/// if let Some(Ok(Some(leader))) = leaders.next().await {
///     assert_eq!(&*leader.value, "host-3");
/// }
/// term.resign().await?;
/// # Ok(()) }
/// ```
///
/// - A candidate waits without a bound, in the order of arrival, through outages of the store; after
///   24 h in line it joins the end anew. Drop the future to leave. A term goes on without a bound: it is renewed as long as the process
///   lives, whatever its runtime does.
/// - Each candidate stands in the store's line by itself, also two of one process. A leader that
///   resigns hands over to the next in line, in whichever process.
/// - The name of an election is a key. `lock` and `election` of one key exclude each other, so give
///   an election a key of its own.
/// - Where [`Capabilities::election`](crate::backend::Capabilities) does not hold (a quorum), all of this is
///   refused before anything is sent.
#[doc(alias("leader", "leader election"))]
#[derive(Debug, Clone)]
pub struct Election {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    options: LockOptions,
}

impl Election {
    pub(crate) fn new(shared: Arc<Shared>, key: Result<Key, KeyError>) -> Self {
        let LockOptions { lease, name, replicas, .. } = shared.defaults;
        let options = LockOptions {
            lease,
            name,
            replicas,
            wait: DURATION_MAX,
            // A candidate is nobody's sibling.
            reentrant: false,
            ..LockOptions::new()
        };
        Self { shared, key, options }
    }

    /// How long a term lives at the store without a renewal (default 10 s): so long it takes until
    /// a leader that died is followed. At ZooKeeper and etcd that is the session. See
    /// [`LockOptions::lease`].
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// By how many replicas of the store the begin of a term must be acknowledged within `timeout`
    /// (none by default), see [`LockOptions::replicas`].
    #[must_use]
    pub fn replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.options = self.options.with_replicas(count, timeout);
        self
    }

    /// Waits to lead. `value` is what those who follow are shown: an address, a name. It is text of
    /// at most 1,024 bytes.
    ///
    /// # Errors
    ///
    /// [`Rejected`](AcquireError::Rejected) for a bad key, lease or value, and where the store has
    /// no elections: at the first poll, before anything is sent.
    /// [`Unavailable`](AcquireError::Unavailable) when the store refuses for good. What may pass,
    /// as an outage, is waited for. [`Closed`](AcquireError::Closed) when the client is shut down.
    ///
    /// # Cancel safety
    ///
    /// See [`RunFor`].
    pub fn run_for(&self, value: impl Into<Arc<str>>) -> RunFor {
        self.candidate(value.into(), self.options)
    }

    /// Leads if nobody does and nobody waits to; `None` otherwise. The store has 2 s to answer.
    ///
    /// # Errors
    ///
    /// As [`run_for`](Self::run_for), and [`Unavailable`](AcquireError::Unavailable) also for an
    /// outage.
    ///
    /// # Cancel safety
    ///
    /// See [`RunFor`].
    pub async fn try_run_for(
        &self,
        value: impl Into<Arc<str>>,
    ) -> Result<Option<Term>, AcquireError> {
        let options = LockOptions { wait: Duration::ZERO, ..self.options };
        if_free(self.candidate(value.into(), options).await)
    }

    /// Waits to lead, then runs `work` as long as the term goes on, and resigns. An acquire of the
    /// same key that `work` calls is none of the leader's: it waits. When the term is lost, the work
    /// is dropped at its next await, before it does anything more.
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when the term was lost
    /// before the work had ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work, then resigns in the background.
    pub async fn run<F, Fut, T>(&self, value: impl Into<Arc<str>>, work: F) -> Result<T, RunError>
    where
        F: FnOnce(LockHandle) -> Fut,
        Fut: Future<Output = T>,
    {
        let term = self.run_for(value).await?;
        let handle = term.handle();
        let work = work(handle.clone());
        let output = until_lost(handle.lost(), || handle.why_lost(), work).await?;
        // The work is done; what the store answers cannot change that any more.
        drop(term.resign().await);
        Ok(output)
    }

    fn candidate(&self, value: Arc<str>, options: LockOptions) -> RunFor {
        let refused = self.refusal(&value);
        RunFor::new(self.shared.clone(), self.key.clone(), options, value, refused)
    }

    fn refusal(&self, value: &str) -> Option<Rejection> {
        let key = self.key.as_ref().ok()?.clone();
        if !self.shared.capabilities.election {
            return Some(Rejection::Unsupported { key, option: "election" });
        }
        let (given, max) = (value.len(), ELECTION_VALUE_BYTES_MAX);
        (given > max).then_some(Rejection::Value { key, given, max })
    }

    /// The leader of the moment, as the store knows; `None` if nobody leads.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] for a bad key, where the store has no elections, when it does not answer,
    /// and when the client was shut down.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it. A store may note for half a minute that it was asked.
    pub async fn leader(&self) -> Result<Option<Leader>, OperatorError> {
        match self.observe().next().await {
            Some(answer) => answer,
            None => {
                let fault = Fault::new(FaultKind::Refused, "the client was shut down");
                Err(UnavailableError::new(self.key.clone()?, fault).into())
            }
        }
    }

    /// The leaders, from one to the next.
    pub fn observe(&self) -> Observe {
        let key = self.shared.checked(self.key.clone());
        Observe::new(self.shared.clone(), key, self.options.lease)
    }
}
