//! One session at ZooKeeper, and the requests that are sent in it.
//!
//! Requests of one session are served in the order in which they were sent, over reconnects too.
//! That makes a lost reply harmless: a [`list`](Session::list) behind an answered write sees what
//! became of everything that was asked for before.
//!
//! A request is sent when its method is called, not when its future is polled first, so two calls
//! before one await take one round trip. Those that are `async` send more than one.
//!
//! - [`requests`]: the requests of a session. [`directories`]: those that make directories.
//! - [`sessions`]: a new one after one has ended.
//! - [`liveness`], [`keepalive`]: what keeps it.
//! - [`link`]: the client library's task of it, and its end.
//! - [`ticket`]: the enrolment that a server must have.
//! - [`watched`]: how much it watches.

mod directories;
mod keepalive;
mod link;
pub(super) mod liveness;
pub(super) mod requests;
pub(super) mod sessions;
pub(super) mod ticket;
mod watched;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zookeeper_client::{Acls, Client, Error, StateWatcher};

use self::directories::First;
use self::link::Link;
use self::ticket::Ticket;
use crate::backend::Fault;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};
use crate::zookeeper::fault::{self, Failure};
use crate::zookeeper::names;
use crate::zookeeper::protocol::clock::SessionClock;
use crate::zookeeper::target::Target;
use liveness::{End, Liveness};
pub(super) use watched::Share;
use watched::Watched;

/// The time that one request may take.
pub(in crate::zookeeper) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// A client that has no link gives its session up within the timeout. A client that says
/// nothing for this many timeouts is not run any more.
const SILENT_FOR: u32 = 2;

/// The number of looks at the server that are remembered: each client is about to act on one at
/// most.
const LOOKS_MAX: usize = 8;

pub(in crate::zookeeper) type Answer<T> = Result<T, Failure>;

/// One session at ZooKeeper: sends its requests, and keeps the node that proves it alive.
#[derive(Debug)]
pub(in crate::zookeeper) struct Session {
    pub(in crate::zookeeper) client: Client,
    pub(in crate::zookeeper) acls: Acls<'static>,
    /// The node that is written to prove that the session lives.
    pub(in crate::zookeeper) node: String,
    pub(in crate::zookeeper) liveness: Arc<Liveness>,
    /// The home of the session's tasks.
    pub(in crate::zookeeper) home: Arc<Home>,
    link: Arc<Link>,
    requests: Arc<AtomicU64>,
    watched: Watched,
    /// The ticket by which the server's enrolment was last read in this session.
    ticket: Mutex<Option<Ticket>>,
    /// The server's clock at the last looks at it in this session.
    looks: Mutex<VecDeque<Duration>>,
}

impl Session {
    /// Opens a session, and makes its node. To be called where it is to live.
    pub(in crate::zookeeper) async fn open(
        target: &Target,
        home: Arc<Home>,
        requests: Arc<AtomicU64>,
    ) -> Result<Arc<Self>, Fault> {
        let sent = clock::now();
        let (client, link) = Link::of(&home, target.connect()).await;
        let client = client.map_err(|error| match error {
            Error::Timeout => fault::not_opened(target.session, target.is_tls()),
            error => fault::fault(error),
        })?;
        let timeout = client.session_timeout();
        if timeout < target.session {
            tracing::warn!(asked = ?target.session, ?timeout, "zookeeper shortened the session");
        }
        let node = names::session(&target.root, client.session_id().0);
        let state = client.state_watcher();
        let session = Arc::new(Self {
            client,
            acls: target.acls(),
            node,
            liveness: Arc::new(Liveness::new(SessionClock::start(timeout, sent, clock::now()))),
            home,
            link: Arc::new(link),
            requests,
            watched: Watched::default(),
            ticket: Mutex::new(None),
            looks: Mutex::default(),
        });
        let until = clock::now().plus(REQUEST_WITHIN);
        // The directory is ours alone if we have a user, so a wrong password is refused here and
        // now.
        session.make_node(until).await.map_err(Failure::into_fault)?;
        tracing::debug!(session = %session.client.session_id(), ?timeout, "zookeeper session");
        let keeper = keepalive::keep(Arc::downgrade(&session), session.liveness.clone(), state);
        drop(session.home.spawn(keeper));
        let (liveness, state) = (session.liveness.clone(), session.client.state_watcher());
        drop(session.home.spawn(session.link.clone().watch(liveness, state, timeout)));
        Ok(session)
    }

    pub(in crate::zookeeper) fn id(&self) -> i64 {
        self.client.session_id().0
    }

    pub(in crate::zookeeper) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// The right to watch paths of so many bytes in all; `None` where this session watches so much that
    /// its link could not come back.
    pub(in crate::zookeeper) fn share(&self, bytes: usize) -> Option<Share> {
        self.watched.share(bytes)
    }

    pub(in crate::zookeeper) fn ticket(&self) -> Option<Ticket> {
        lock(&self.ticket).clone()
    }

    pub(in crate::zookeeper) fn keep_ticket(&self, ticket: Option<Ticket>) {
        *lock(&self.ticket) = ticket;
    }

    /// The server was looked at, when its clock was at `now`.
    pub(in crate::zookeeper) fn looked(&self, now: Duration) {
        let mut looks = lock(&self.looks);
        looks.push_back(now);
        if looks.len() > LOOKS_MAX {
            looks.pop_front();
        }
    }

    /// Whether this session is the one of the look that told this clock.
    pub(in crate::zookeeper) fn has_looked(&self, now: Duration) -> bool {
        lock(&self.looks).contains(&now)
    }

    /// Waits for an answer, and sorts it.
    pub(in crate::zookeeper) async fn ask<T>(
        &self,
        until: Instant,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Answer<T> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = self.home.timeout_at(until, request).await;
        let now = clock::now();
        let failure = match answer {
            Ok(Ok(answer)) => {
                self.liveness.heard(now);
                return Ok(answer);
            }
            // Told also by a client that has counted the session out itself.
            Ok(Err(Error::SessionExpired)) => {
                self.liveness.end(End::Expired);
                Failure::Over
            }
            Ok(Err(error)) => Failure::of(error),
            Err(_) => Failure::Unknown(fault::timed_out(REQUEST_WITHIN)),
        };
        match failure {
            Failure::Answer(_) | Failure::Unfit(_) => self.liveness.heard(now),
            Failure::Over => self.liveness.end(End::GivenUp),
            // By then the client would have said something, were its task run by anybody.
            Failure::Unknown(_) => {
                if now > self.liveness.last_heard().plus(self.timeout() * SILENT_FOR) {
                    self.liveness.end(End::GivenUp);
                }
            }
        }
        Err(if self.liveness.is_over() { Failure::Over } else { failure })
    }

    /// The same as [`ask`](Self::ask), for a write: its answer proves that the session lived.
    async fn tell<T>(
        &self,
        sent: Instant,
        until: Instant,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Answer<T> {
        let answer = self.ask(until, request).await?;
        self.liveness.proved(sent, clock::now());
        Ok(answer)
    }

    async fn make_node(&self, until: Instant) -> Answer<()> {
        let directory = self.node.rsplit_once('/').map_or("/", |(directory, _)| directory);
        self.make_all(directory, First::Session(&self.node), until).await
    }

    /// Writes to the session's own node, which a majority answers if the session lives.
    pub(in crate::zookeeper) async fn prove(&self, until: Instant) -> Answer<()> {
        let sent = clock::now();
        let request = self.client.set_data(&self.node, b"", None);
        match self.tell(sent, until, request).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_no_node() => {
                // Somebody took it away; with its directory too, if that was empty then.
                self.make_node(until).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// One of the writes that keep the session proved.
    pub(in crate::zookeeper) async fn beat(&self) {
        // Later an answer would prove nothing that is of use.
        let until = clock::now().plus(self.timeout() * 2 / 3);
        if let Err(failure) = self.prove(until).await {
            tracing::debug!(fault = %failure.into_fault(), "no proof of the session");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.liveness.end(End::GivenUp);
        // The client's own drop, which is next, closes the session at the server. Nobody waits for
        // that, but the thread must not end before it.
        let (home, farewell) = (self.home.clone(), is_closed(self.client.state_watcher()));
        // A connection that is lost from here on is told of to nobody.
        let heard = self.liveness.last_heard();
        let until = link::looked_for_until(clock::now(), heard, self.timeout());
        let link = self.link.clone();
        drop(self.home.spawn(async move {
            // Without a link the server ends it by itself.
            drop(home.timeout_at(until, farewell).await);
            link.cut();
        }));
    }
}

/// Resolves when the server was told that the session is over, or has said so.
async fn is_closed(mut state: StateWatcher) {
    while !state.changed().await.is_terminated() {}
}
