//! One session at ZooKeeper, and the requests that are sent in it.
//!
//! Requests of one session are served in the order in which they were sent, over reconnects too,
//! which is what makes a lost reply harmless: a [`sync`](Session::sync) and a
//! [`list`](Session::list) that are sent after a create see what became of it.
//!
//! A request is sent when its method is called, not when its future is polled first, so two calls
//! before one await take one round trip.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use zookeeper_client::{Acls, Client, CreateMode, Error, OneshotWatcher, Stat};

use super::fault::{self, Failure};
use super::keeper;
use super::life::Life;
use super::names;
use super::url::Target;
use crate::backend::Fault;
use crate::engine::clock;
use crate::proto::SessionClock;

/// How long one request may take.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// How often a directory that is removed over and over is made again.
const MAKES_MAX: u32 = 5;

pub(super) type Answer<T> = Result<T, Failure>;

/// See the module.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    acls: Acls<'static>,
    /// The node that is written to prove that the session lives.
    node: String,
    pub(super) life: Arc<Life>,
    /// Where the tasks of the session run: without that runtime the session ends.
    pub(super) runtime: Handle,
    requests: Arc<AtomicU64>,
}

impl Session {
    /// Opens a session, and makes its node.
    pub(super) async fn open(
        target: &Target,
        requests: Arc<AtomicU64>,
    ) -> Result<Arc<Self>, Fault> {
        let sent = clock::now();
        let client = target.connect().await.map_err(|error| match error {
            Error::Timeout => fault::not_opened(target.session, target.is_tls()),
            error => fault::fault(error),
        })?;
        let timeout = client.session_timeout();
        let node = names::session(&target.root, client.session_id().0);
        let state = client.state_watcher();
        let session = Arc::new(Self {
            client,
            acls: target.acls(),
            node,
            life: Arc::new(Life::new(SessionClock::start(timeout, sent))),
            runtime: Handle::current(),
            requests,
        });
        let directory = names::sessions(&target.root);
        let until = clock::now() + REQUEST_WITHIN;
        let mut made = session.make_node(until).await;
        for _ in 0..MAKES_MAX {
            if !made.as_ref().is_err_and(Failure::is_no_node) {
                break;
            }
            session.make_directory(&directory, until).await.map_err(Failure::into_fault)?;
            made = session.make_node(until).await;
        }
        made.map_err(Failure::into_fault)?;
        tracing::debug!(session = %session.client.session_id(), ?timeout, "zookeeper session");
        drop(tokio::spawn(keeper::keep(Arc::downgrade(&session), session.life.clone(), state)));
        Ok(session)
    }

    pub(super) fn id(&self) -> i64 {
        self.client.session_id().0
    }

    pub(super) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Waits for an answer, and sorts it.
    async fn ask<T>(
        &self,
        until: Instant,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Answer<T> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match tokio::time::timeout_at(until.into(), request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let failure = Failure::of(error);
                if matches!(failure, Failure::Over) {
                    self.life.end();
                }
                Err(failure)
            }
            Err(_) => Err(Failure::Unknown(fault::timed_out(REQUEST_WITHIN))),
        }
    }

    /// As [`ask`](Self::ask), for a write: its answer proves that the session lived.
    async fn tell<T>(
        &self,
        sent: Instant,
        until: Instant,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Answer<T> {
        let answer = self.ask(until, request).await?;
        self.life.proved(sent);
        Ok(answer)
    }

    /// Creates a node of this session that the server numbers; its number and its birth.
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
            Ok((sequence.into_i64(), birth(&stat)))
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

    /// Proves that the session lives, as far as it does.
    pub(super) async fn beat(&self, until: Instant) {
        let sent = clock::now();
        let request = self.client.set_data(&self.node, b"", None);
        let answer = self.tell(sent, until, request).await;
        if answer.is_err_and(|failure| failure.is_no_node()) {
            // Somebody took it away; with its directory too, if that was empty then.
            if let Some((directory, _)) = self.node.rsplit_once('/')
                && self.make_directory(directory, until).await.is_ok()
            {
                drop(self.make_node(until).await);
            }
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

    /// The session that a node belongs to, and its birth; `None` if it is not there.
    pub(super) async fn owner(&self, path: &str, until: Instant) -> Answer<Option<(i64, u64)>> {
        let stat = self.ask(until, self.client.check_stat(path)).await?;
        Ok(stat.map(|stat| (stat.ephemeral_owner, birth(&stat))))
    }

    /// The data and the birth of a node.
    pub(super) async fn get(&self, path: &str, until: Instant) -> Answer<(Vec<u8>, u64)> {
        let (data, stat) = self.ask(until, self.client.get_data(path)).await?;
        Ok((data, birth(&stat)))
    }

    /// Replaces the data of a node.
    pub(super) fn set<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let sent = clock::now();
        let request = self.client.set_data(path, data, None);
        async move { self.tell(sent, until, request).await.map(drop) }
    }

    /// The data of a node, and word when that changes or the node goes.
    pub(super) fn watch_data<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<u8>, OneshotWatcher)>> + 'a {
        let request = self.client.get_and_watch_data(path);
        async move {
            let (data, _, watcher) = self.ask(until, request).await?;
            Ok((data, watcher))
        }
    }

    /// The names of all children, and word when one comes or goes.
    pub(super) fn watch_children<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<String>, OneshotWatcher)>> + 'a {
        self.ask(until, self.client.list_and_watch_children(path))
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
        // The client's own drop closes the session at the server.
        self.life.end();
    }
}

/// The transaction that created a node; greater than that of every node before it.
fn birth(stat: &Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
