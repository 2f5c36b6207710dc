//! The session of a client, opened anew after one has ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::enrolled::Rule;
use super::fault;
use super::session::{REQUEST_WITHIN, Session};
use super::url::Target;
use crate::backend::Fault;
use crate::engine::{clock, lock};

/// How long the opening of a session may take.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Those who waited for one opening share its failure for this long.
const FAILURE_SHARED: Duration = Duration::from_millis(10);

/// What became of an opening.
enum Opening {
    Done(Result<Arc<Session>, Fault>),
    /// It goes on.
    Unfinished,
    /// Nobody is there to do it.
    Gone,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) target: Target,
    /// The runtime that the client was made in. Sessions belong there, not to the runtime of
    /// whoever asks first, for as long as it runs.
    home: Handle,
    home_is_gone: AtomicBool,
    current: Mutex<Option<Arc<Session>>>,
    /// Held while a session is opened; the last failure and its time.
    opening: tokio::sync::Mutex<Option<(Instant, Fault)>>,
    requests: Arc<AtomicU64>,
    /// When attempts are served.
    pub(super) rule: RwLock<Rule>,
    rules: AtomicU64,
    /// Whether tokens come from counters, as at a member of a quorum.
    counts: AtomicBool,
}

impl Sessions {
    /// No session yet: it is opened by who asks first. In the runtime that sessions belong to.
    pub(super) fn new(target: Target) -> Arc<Self> {
        Arc::new(Self {
            target,
            home: Handle::current(),
            home_is_gone: AtomicBool::new(false),
            current: Mutex::new(None),
            opening: tokio::sync::Mutex::new(None),
            requests: Arc::new(AtomicU64::new(0)),
            rule: RwLock::default(),
            rules: AtomicU64::new(0),
            counts: AtomicBool::new(false),
        })
    }

    /// Opens the first session.
    pub(super) async fn connect(target: Target) -> Result<Arc<Self>, Fault> {
        let sessions = Self::new(target);
        sessions.open().await?;
        Ok(sessions)
    }

    /// A number for a further rule.
    pub(super) fn next_rule(&self) -> u64 {
        self.rules.fetch_add(1, Ordering::Relaxed)
    }

    /// Tokens come from counters from now on.
    pub(super) fn count(&self) {
        self.counts.store(true, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    pub(super) fn requests(&self) -> u64 {
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
    pub(super) async fn get(self: &Arc<Self>, until: Instant) -> Result<Arc<Session>, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        if !self.home_is_gone.load(Ordering::Relaxed) {
            match self.open_on(&self.home, until).await {
                Opening::Done(opened) => return opened,
                Opening::Unfinished => return Err(fault::timed_out(REQUEST_WITHIN)),
                // That of whoever asks has to do from now on.
                Opening::Gone => self.home_is_gone.store(true, Ordering::Relaxed),
            }
        }
        match self.open_on(&Handle::current(), until).await {
            Opening::Done(opened) => opened,
            Opening::Unfinished | Opening::Gone => Err(fault::timed_out(REQUEST_WITHIN)),
        }
    }

    async fn open_on(self: &Arc<Self>, runtime: &Handle, until: Instant) -> Opening {
        let (this, begun) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let begins = begun.clone();
        let opening = runtime.spawn(async move {
            begins.store(true, Ordering::Relaxed);
            this.open().await
        });
        match tokio::time::timeout_at(clock::timer(until), opening).await {
            Ok(Ok(opened)) => Opening::Done(opened),
            Err(_) if begun.load(Ordering::Relaxed) => Opening::Unfinished,
            // The runtime has ended, or nobody drives it.
            Ok(Err(_)) | Err(_) => Opening::Gone,
        }
    }

    async fn open(&self) -> Result<Arc<Session>, Fault> {
        let asked = clock::now();
        let mut failed = self.opening.lock().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        if let Some((at, fault)) = &*failed
            && asked < *at + FAILURE_SHARED
        {
            return Err(fault.clone());
        }
        let opening = Session::open(&self.target, self.requests.clone());
        let opened = tokio::time::timeout(OPEN_WITHIN, opening).await;
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
