//! The session of a client, opened anew after one has ended.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};

use super::fault;
use super::keepalive;
use super::links::{Links, REQUEST_WITHIN};
use super::session::{OPEN_WITHIN, Session};
use super::target::Target;
use super::watch::Hub;
use crate::backend::Fault;
use crate::backend::io::{Home, by, within};
use crate::ground::{Plus as _, clock, lock};

/// Those who waited for one opening share its failure for this long.
const FAILURE_SHARED: Duration = Duration::from_millis(10);

/// Gives all claims of a client its session, and opens the next one when that has ended.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) links: Arc<Links>,
    pub(super) hub: Arc<Hub>,
    current: Mutex<Option<Arc<Session>>>,
    /// Held while a session is opened; the last failure and its time.
    opening: tokio::sync::Mutex<Option<(Instant, Fault)>>,
}

impl Sessions {
    /// Opens the first session.
    pub(super) async fn connect(target: Target) -> Result<Arc<Self>, Fault> {
        let home = Home::shared()?;
        let links = Links::new(target, home);
        let sessions = Arc::new(Self {
            hub: Hub::new(links.clone()),
            links,
            current: Mutex::new(None),
            opening: tokio::sync::Mutex::new(None),
        });
        opened(sessions.opening().await)?;
        Ok(sessions)
    }

    fn current(&self) -> Option<Arc<Session>> {
        let mut current = lock(&self.current);
        current.take_if(|session| session.liveness.is_over());
        current.clone()
    }

    /// The session, opened anew if there is none. An opening that takes longer goes on, for the
    /// next who asks.
    pub(super) async fn get(self: &Arc<Self>, until: Instant) -> Result<Arc<Session>, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        match by(until, self.opening()).await {
            Ok(done) => opened(done),
            Err(_) => Err(fault::timed_out(REQUEST_WITHIN).unsent()),
        }
    }

    /// Where sessions live, and to its end, whatever becomes of the caller.
    fn opening(self: &Arc<Self>) -> JoinHandle<Result<Arc<Session>, Fault>> {
        let this = self.clone();
        self.links.home.spawn(async move { this.open().await })
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
        let opened = within(OPEN_WITHIN, keepalive::open(self.links.clone())).await;
        match opened.unwrap_or_else(|_| Err(fault::timed_out(OPEN_WITHIN))) {
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
