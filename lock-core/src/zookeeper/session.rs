//! One session at ZooKeeper, and the requests that are sent in it.
//!
//! Requests of one session are served in the order in which they were sent, over reconnects too.
//! That makes a lost reply harmless: a [`list`](Session::list) behind an answered write sees what
//! became of everything that was asked for before.
//!
//! A request is sent when its method is called, not when its future is polled first, so two calls
//! before one await take one round trip. Those that are `async` send more than one.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zookeeper_client::{
    Acls, Client, CreateMode, Error, MultiWriteError, OneshotWatcher, Stat, StateWatcher,
};

use super::enrolled::Ticket;
use super::fault::{self, Failure};
use super::keepalive;
use super::link::{self, Link};
use super::liveness::{End, Liveness};
use super::names;
use super::target::Target;
use crate::backend::Fault;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};
use crate::proto::SessionClock;

/// How long one request may take.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// A client that has no link gives its session up within the timeout. A client that says
/// nothing for this many timeouts is not run any more.
const SILENT_FOR: u32 = 2;

/// How often a directory that is removed over and over is made again.
const MAKES_MAX: u32 = 5;

/// How many looks at the server are remembered: each client is about to act on one at most.
const LOOKS_MAX: usize = 8;

pub(super) type Answer<T> = Result<T, Failure>;

/// One session at ZooKeeper: sends its requests, and keeps the node that proves it alive.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) acls: Acls<'static>,
    /// The node that is written to prove that the session lives.
    pub(super) node: String,
    pub(super) liveness: Arc<Liveness>,
    /// Where the tasks of the session run.
    pub(super) home: Arc<Home>,
    link: Arc<Link>,
    requests: Arc<AtomicU64>,
    /// What was read of the server's enrolment in this session.
    ticket: Mutex<Option<Ticket>>,
    /// The server's clock at the last looks at it in this session.
    looks: Mutex<VecDeque<Duration>>,
}

impl Session {
    /// Opens a session, and makes its node. To be called where it is to live.
    pub(super) async fn open(
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
            ticket: Mutex::new(None),
            looks: Mutex::default(),
        });
        let directory = names::sessions(&target.root);
        let until = clock::now().plus(REQUEST_WITHIN);
        let mut made = session.make_node(until).await;
        for _ in 0..MAKES_MAX {
            if !made.as_ref().is_err_and(Failure::is_no_node) {
                break;
            }
            // Ours alone if we have a user, so a wrong password is refused here and now.
            session.make_directory(&directory, until).await.map_err(Failure::into_fault)?;
            made = session.make_node(until).await;
        }
        made.map_err(Failure::into_fault)?;
        tracing::debug!(session = %session.client.session_id(), ?timeout, "zookeeper session");
        let keeper = keepalive::keep(Arc::downgrade(&session), session.liveness.clone(), state);
        drop(session.home.spawn(keeper));
        let (liveness, state) = (session.liveness.clone(), session.client.state_watcher());
        drop(session.home.spawn(session.link.clone().watch(liveness, state, timeout)));
        Ok(session)
    }

    pub(super) fn id(&self) -> i64 {
        self.client.session_id().0
    }

    pub(super) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        lock(&self.ticket).clone()
    }

    pub(super) fn keep_ticket(&self, ticket: Option<Ticket>) {
        *lock(&self.ticket) = ticket;
    }

    /// The server was looked at, when its clock was at `now`.
    pub(super) fn looked(&self, now: Duration) {
        let mut looks = lock(&self.looks);
        looks.push_back(now);
        if looks.len() > LOOKS_MAX {
            looks.pop_front();
        }
    }

    /// Whether this session is the one of the look that told this clock.
    pub(super) fn has_looked(&self, now: Duration) -> bool {
        lock(&self.looks).contains(&now)
    }

    /// Waits for an answer, and sorts it.
    pub(super) async fn ask<T>(
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

    /// As [`ask`](Self::ask), for a write: its answer proves that the session lived.
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

    /// Creates a node of this session that the server numbers; its number and the transaction.
    pub(super) fn create<'a>(
        &'a self,
        prefix: &'a str,
        data: &[u8],
        until: Instant,
    ) -> impl Future<Output = Answer<(i64, u64)>> + 'a {
        let sent = clock::now();
        let options = CreateMode::EphemeralSequential.with_acls(self.acls);
        let request = self.client.create(prefix, data, &options);
        async move {
            let (stat, sequence) = self.tell(sent, until, request).await?;
            Ok((sequence.into_i64(), czxid(&stat)))
        }
    }

    /// Makes one directory, whose parent is there.
    pub(super) fn make<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let sent = clock::now();
        let options = CreateMode::Container.with_acls(self.acls);
        let request = self.client.create(path, b"", &options);
        async move {
            match self.tell(sent, until, request).await {
                Ok(_) | Err(Failure::Answer(Error::NodeExists)) => Ok(()),
                Err(failure) => Err(failure),
            }
        }
    }

    /// Makes a directory and all above it.
    pub(super) async fn make_directory(&self, path: &str, until: Instant) -> Answer<()> {
        let options = CreateMode::Container.with_acls(self.acls);
        self.ask(until, self.client.mkdir(path, &options)).await
    }

    async fn make_node(&self, until: Instant) -> Answer<()> {
        let sent = clock::now();
        let options = CreateMode::Ephemeral.with_acls(self.acls);
        let request = self.client.create(&self.node, b"", &options);
        match self.tell(sent, until, request).await {
            Ok(_) | Err(Failure::Answer(Error::NodeExists)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Writes to the session's own node, which a majority answers if the session lives.
    pub(super) async fn prove(&self, until: Instant) -> Answer<()> {
        let sent = clock::now();
        let request = self.client.set_data(&self.node, b"", None);
        match self.tell(sent, until, request).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_no_node() => {
                // Somebody took it away; with its directory too, if that was empty then.
                let directory = self.node.rsplit_once('/').map_or("/", |(directory, _)| directory);
                self.make_directory(directory, until).await?;
                self.make_node(until).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// One of the writes that keep the session proved.
    pub(super) async fn beat(&self) {
        // Later an answer would prove nothing that is of use.
        let until = clock::now().plus(self.timeout() * 2 / 3);
        if let Err(failure) = self.prove(until).await {
            tracing::debug!(fault = %failure.into_fault(), "no proof of the session");
        }
    }

    /// The names of all children.
    pub(super) fn list<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<Vec<String>>> + 'a {
        self.ask(until, self.client.list_children(path))
    }

    /// Brings the server that we talk to up to date with the leader.
    pub(super) fn sync<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        self.ask(until, self.client.sync(path))
    }

    /// The session that a node belongs to, and its czxid; `None` if it is not there.
    pub(super) fn owner<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<Option<(i64, u64)>>> + 'a {
        let request = self.client.check_stat(path);
        async move {
            let stat = self.ask(until, request).await?;
            Ok(stat.map(|stat| (stat.ephemeral_owner, czxid(&stat))))
        }
    }

    /// The data of a node, and what goes with it.
    pub(super) fn get<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<u8>, Stat)>> + 'a {
        self.ask(until, self.client.get_data(path))
    }

    /// Replaces the data of a node, if they are of this version still.
    pub(super) fn set<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        version: Option<i32>,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let sent = clock::now();
        let request = self.client.set_data(path, data, version);
        async move { self.tell(sent, until, request).await.map(drop) }
    }

    /// The data of a node, and word when they change or the node goes.
    pub(super) fn watch_data<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<u8>, Stat, OneshotWatcher)>> + 'a {
        self.ask(until, self.client.get_and_watch_data(path))
    }

    /// The names of all children, and word when one comes or goes.
    pub(super) fn watch_children<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<String>, OneshotWatcher)>> + 'a {
        self.ask(until, self.client.list_and_watch_children(path))
    }

    /// Whether a node is there, and word when it comes, goes or changes.
    pub(super) fn watch_presence<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(bool, OneshotWatcher)>> + 'a {
        let request = self.client.check_and_watch_stat(path);
        async move {
            let (stat, watcher) = self.ask(until, request).await?;
            Ok((stat.is_some(), watcher))
        }
    }

    /// Deletes a node.
    pub(super) fn delete<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let sent = clock::now();
        let request = self.client.delete(path, None);
        self.tell(sent, until, request)
    }

    /// Deletes a node unless another is missing; whether it is gone.
    pub(super) fn delete_beside<'a>(
        &'a self,
        path: &'a str,
        other: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<bool>> + 'a {
        let sent = clock::now();
        let mut both = self.client.new_multi_writer();
        let added = both.add_check_version(other, -1).and_then(|()| both.add_delete(path, None));
        let request = added.map(|()| both.commit());
        self.tell(sent, until, async move {
            match request?.await {
                Ok(_) => Ok(true),
                Err(MultiWriteError::OperationFailed { index, source: Error::NoNode }) => {
                    Ok(index > 0)
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Deletes a directory that has never had a child nor data. Whoever is about to use it makes
    /// it again, as after its removal by the server.
    pub(super) async fn delete_unused(&self, path: &str, until: Instant) -> Answer<()> {
        let stat = self.ask(until, self.client.check_stat(path)).await?;
        let unused = |stat: &Stat| {
            stat.ephemeral_owner == 0
                && (stat.cversion, stat.version, stat.data_length) == (0, 0, 0)
        };
        if !stat.as_ref().is_some_and(unused) {
            return Ok(());
        }
        match self.delete(path, until).await {
            Err(Failure::Answer(Error::NoNode | Error::NotEmpty)) => Ok(()),
            answer => answer,
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
        let until = clock::now().plus(link::is_looked_for(self.timeout()));
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

/// The transaction that created a node; greater than that of every node before it.
pub(super) fn czxid(stat: &Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
