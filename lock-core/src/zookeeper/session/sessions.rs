//! The session of a client, opened anew after one has ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};

use super::ticket::Rule;
use super::{REQUEST_WITHIN, Session};
use crate::backend::Fault;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock, timeout};
use crate::zookeeper::fault;
use crate::zookeeper::target::Target;

/// The time that the opening of a session may take.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Those who waited for one opening share its failure for this long.
const FAILURE_SHARED: Duration = Duration::from_millis(10);

/// Gives all claims of a client its session, and opens the next one when that has ended.
#[derive(Debug)]
pub(in crate::zookeeper) struct Sessions {
    pub(in crate::zookeeper) target: Target,
    pub(in crate::zookeeper) home: Arc<Home>,
    current: Mutex<Option<Arc<Session>>>,
    /// Held while a session is opened; the last failure and its time.
    opening: tokio::sync::Mutex<Option<(Instant, Fault)>>,
    requests: Arc<AtomicU64>,
    /// The rule by which attempts are served.
    pub(in crate::zookeeper) rule: RwLock<Rule>,
    rules: AtomicU64,
    /// Whether tokens come from counters, as at a member of a quorum.
    counts: AtomicBool,
}

impl Sessions {
    /// No session yet: it is opened by who asks first.
    pub(in crate::zookeeper) fn new(target: Target) -> Result<Arc<Self>, Fault> {
        let home = Home::shared()?;
        Ok(Arc::new(Self {
            target,
            home,
            current: Mutex::new(None),
            opening: tokio::sync::Mutex::new(None),
            requests: Arc::new(AtomicU64::new(0)),
            rule: RwLock::default(),
            rules: AtomicU64::new(0),
            counts: AtomicBool::new(false),
        }))
    }

    /// Opens the first session.
    pub(in crate::zookeeper) async fn connect(target: Target) -> Result<Arc<Self>, Fault> {
        let sessions = Self::new(target)?;
        opened(sessions.opening().await)?;
        Ok(sessions)
    }

    /// A number for a further rule.
    pub(in crate::zookeeper) fn next_rule(&self) -> u64 {
        self.rules.fetch_add(1, Ordering::Relaxed)
    }

    /// Tokens come from counters from now on.
    pub(in crate::zookeeper) fn count(&self) {
        self.counts.store(true, Ordering::Relaxed);
    }

    pub(in crate::zookeeper) fn counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    pub(in crate::zookeeper) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn current(&self) -> Option<Arc<Session>> {
        let mut current = lock(&self.current);
        // Dropped here, a session that is over gives its connection back.
        current.take_if(|session| session.liveness.is_over());
        current.clone()
    }

    /// The session, opened anew if there is none. An opening that takes longer goes on, for the
    /// next who asks.
    pub(in crate::zookeeper) async fn get(
        self: &Arc<Self>,
        until: Instant,
    ) -> Result<Arc<Session>, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        match self.home.timeout_at(until, self.opening()).await {
            Ok(done) => opened(done),
            Err(_) => Err(fault::timed_out(REQUEST_WITHIN)),
        }
    }

    /// Opens a session where sessions live. It goes on to its end, whatever becomes of the caller.
    fn opening(self: &Arc<Self>) -> JoinHandle<Result<Arc<Session>, Fault>> {
        let this = self.clone();
        self.home.spawn(async move { this.open().await })
    }

    async fn open(&self) -> Result<Arc<Session>, Fault> {
        let asked = clock::now();
        let mut failed = self.opening.lock().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        if let Some((at, fault)) = &*failed
            && asked < at.plus(FAILURE_SHARED)
        {
            return Err(fault.clone());
        }
        let opening = Session::open(&self.target, self.home.clone(), self.requests.clone());
        let opened = timeout::within(OPEN_WITHIN, opening).await;
        let late = |_| Err(fault::not_opened(OPEN_WITHIN, self.target.is_tls()));
        match opened.unwrap_or_else(late) {
            Ok(session) => {
                *failed = None;
                let mut current = lock(&self.current);
                Ok(current.insert(session).clone())
            }
            Err(fault) => {
                *failed = Some((clock::now(), fault.clone()));
                Err(fault)
            }
        }
    }
}

/// The outcome of an opening; one that panicked has said so.
fn opened(done: Result<Result<Arc<Session>, Fault>, JoinError>) -> Result<Arc<Session>, Fault> {
    done.unwrap_or_else(|_| Err(fault::session_over()))
}
