//! One Redis, of one server or of many: how a script is called there, and what is the client's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::cluster::{self, Cluster, Listening};
use super::inbox::Inboxes;
use super::lanes::Lanes;
#[cfg(feature = "deadpool")]
use super::link::Request;
use super::link::{self, Failure, Link, Unserved};
use super::names::Names;
use super::origin::Origin;
#[cfg(feature = "deadpool")]
use super::pool::RedisPool;
use super::renewals::{Renew, Renewals, Shape};
use super::script::{RIGHTS, Script, WITHDRAW};
use super::sentinel::Sentinels;
use super::{fault, names, probe};
use crate::backend::Fault;
use crate::engine::clock;
use crate::options::Replicas;

/// See the module.
#[derive(Debug)]
pub(super) struct Node {
    /// 64 random bits that name this client.
    pub(super) session: String,
    pub(super) inboxes: Arc<Inboxes>,
    servers: Servers,
    /// A key that no lock has, and the channel on which its grants would be pushed.
    probe: (String, String),
    #[cfg(feature = "deadpool")]
    pool: Option<RedisPool>,
    requests: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Servers {
    One {
        /// Commands and pushes.
        main: Arc<Link>,
        renewals: Renewals,
        /// Attempts that wait for replicas.
        lanes: Lanes,
    },
    Cluster(Arc<Cluster>),
}

impl Node {
    /// Connects to one server, or to the one that sentinels name.
    pub(super) async fn connect(
        origin: Origin,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        let session = new_session();
        let inboxes = Arc::new(Inboxes::default());
        let requests = Arc::new(AtomicU64::new(0));
        let channel = names::channel(&session);
        let renewals = Renewals::start(Link::plain(origin.clone()), requests.clone(), Shape::Whole);
        let main = Link::listening(origin.clone(), channel.clone(), inboxes.clone());
        main.get().await?;
        probe::no_cluster(&main).await?;
        let node = Self {
            probe: (format!("lock:{{probe-{session}}}"), channel),
            session,
            inboxes,
            servers: Servers::One { main, renewals, lanes: Lanes::new(origin.clone()) },
            #[cfg(feature = "deadpool")]
            pool,
            requests,
        };
        let node = node.checked(&[]).await?;
        if let Some(sentinels) = origin.sentinels() {
            probe::min_replicas(&node).await;
            follow(&node, sentinels);
        }
        Ok(node)
    }

    /// There is another master.
    fn switched(&self) {
        if let Servers::One { main, renewals, .. } = &self.servers {
            main.follow();
            renewals.follow();
            self.inboxes.stir();
        }
    }

    /// Connects to a cluster.
    pub(super) async fn connect_cluster(
        target: cluster::Target,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        super::url::install_tls();
        let session = new_session();
        let inboxes = Arc::new(Inboxes::default());
        let requests = Arc::new(AtomicU64::new(0));
        let cluster =
            Cluster::connect(target, session.clone(), inboxes.clone(), requests.clone()).await?;
        // At a node that answers: another may be about to be succeeded.
        let (slot, refused) = cluster.refused(true).await?;
        let key = format!("lock:{{{}}}:probe-{session}", cluster::tag_of(slot));
        let node = Self {
            probe: (key, cluster::channel(slot, &session)),
            session,
            inboxes,
            servers: Servers::Cluster(cluster),
            #[cfg(feature = "deadpool")]
            pool,
            requests,
        };
        node.checked(&refused).await
    }

    async fn checked(self, refused: &[&str]) -> Result<Arc<Self>, Fault> {
        #[cfg(feature = "deadpool")]
        probe::kind_of_pool(&self)?;
        probe::rights_beside(&self, refused).await?;
        probe::eviction(&self).await;
        #[cfg(feature = "deadpool")]
        probe::pool(&self).await?;
        Ok(Arc::new(self))
    }

    #[cfg(feature = "deadpool")]
    pub(super) fn pool(&self) -> Option<&RedisPool> {
        self.pool.as_ref()
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.servers {
            Servers::One { .. } => None,
            Servers::Cluster(cluster) => Some(cluster),
        }
    }

    /// A key of this client's own that no lock has, for trying things.
    pub(super) fn probe_key(&self) -> &str {
        &self.probe.0
    }

    /// The script as these servers run it.
    pub(super) fn script<'a>(&self, script: &'a Script) -> &'a Script {
        match &self.servers {
            Servers::One { .. } => script,
            Servers::Cluster(_) => script.sharded(),
        }
    }

    /// Adds the arguments that end a call which may push: the clock of the tokens, if it is not
    /// the server's, and where to push to, if that is not known without it.
    pub(super) fn end(&self, command: &mut Cmd, names: &Names, clock: Option<u64>) {
        match &self.servers {
            Servers::One { .. } => command.arg(clock),
            Servers::Cluster(_) => {
                let tag = cluster::tag_of(cluster::slot_of(names.lock().as_bytes()));
                command.arg(clock.map_or_else(String::new, |clock| clock.to_string())).arg(tag)
            }
        };
    }

    /// Sees to it that pushes for a lock are heard, where that is not so anyway.
    pub(super) fn listen(&self, names: &Names) -> Option<Listening> {
        self.cluster()?.listen(names)
    }

    /// Calls a script by its hash, and with its source if the server does not know it.
    pub(super) async fn call(&self, script: &Script, command: Cmd) -> Result<Value, Unserved> {
        match (self.has_pool(), self.cluster()) {
            (false, Some(cluster)) => cluster.call(script, &command).await,
            _ => match self.send(&command).await {
                Err(unserved) if unserved.fault.is_no_script() => {
                    self.send(&script.eval(&command)).await
                }
                answer => answer,
            },
        }
    }

    /// Calls a script, and waits for its replication; also how many replicas acknowledged it. In a
    /// cluster that goes past the pool, which has no one connection to wait on.
    pub(super) async fn call_and_wait(
        &self,
        script: &Script,
        command: Cmd,
        replicas: Replicas,
    ) -> Result<(Value, u32), Unserved> {
        let answer = match &self.servers {
            Servers::One { lanes, .. } => {
                match self.send_and_wait(lanes, &command, replicas).await {
                    Err(unserved) if unserved.fault.is_no_script() => {
                        self.send_and_wait(lanes, &script.eval(&command), replicas).await
                    }
                    answer => answer,
                }
            }
            Servers::Cluster(cluster) => cluster.call_and_wait(script, &command, replicas).await,
        };
        match answer? {
            Value::Array(answers) => match <[Value; 2]>::try_from(answers) {
                Ok([answer, Value::Int(acknowledged)]) => {
                    Ok((answer, u32::try_from(acknowledged).unwrap_or_default()))
                }
                _ => Err(strange()),
            },
            _ => Err(strange()),
        }
    }

    async fn send_and_wait(
        &self,
        lanes: &Lanes,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "deadpool")]
        if let Some(pool) = &self.pool {
            return pool.send(Request { command, replicas: Some(replicas) }).await;
        }
        lanes.call_and_wait(command, replicas).await
    }

    /// Calls [`WITHDRAW`]. `held`: the claim held its lock, as far as is known.
    pub(super) async fn withdraw(
        &self,
        command: &Cmd,
        names: &Names,
        owner: &str,
        held: bool,
    ) -> Result<Value, Unserved> {
        let script = self.script(&WITHDRAW);
        match (self.has_pool(), self.cluster()) {
            (false, Some(cluster)) => {
                cluster.withdraw(script, command, names.lock(), owner, held).await
            }
            (true, Some(cluster)) => match self.call(script, command.clone()).await {
                Err(unserved) if unserved.fault.is_try_again() => {
                    cluster.withdraw(script, command, names.lock(), owner, held).await
                }
                answer => answer,
            },
            _ => self.call(script, command.clone()).await,
        }
    }

    /// Renews one claim.
    pub(super) async fn renew(&self, renew: Renew) -> Result<Value, Fault> {
        match &self.servers {
            Servers::One { renewals, .. } => {
                renewals.renew(renew).await.map_err(Failure::into_fault)
            }
            Servers::Cluster(cluster) => cluster.renew(renew).await,
        }
    }

    /// Calls a script over a connection of the past.
    pub(super) async fn call_over(
        &self,
        connection: &mut MultiplexedConnection,
        script: &Script,
        command: &Cmd,
    ) -> Result<(), Failure> {
        let command = script.eval(command);
        if self.cluster().is_some() {
            // It may have been asked for a slot that was on its way there.
            let commands = cluster::asked(&command);
            link::send_each(connection, &commands, link::REQUEST_WITHIN).await.map(drop)
        } else {
            link::send(connection, &command, link::REQUEST_WITHIN).await.map(drop)
        }
    }

    fn has_pool(&self) -> bool {
        #[cfg(feature = "deadpool")]
        return self.pool.is_some();
        #[cfg(not(feature = "deadpool"))]
        false
    }

    #[cfg(not(feature = "deadpool"))]
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.send_main(command).await
    }

    #[cfg(feature = "deadpool")]
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        let Some(pool) = &self.pool else { return self.send_main(command).await };
        self.requests.fetch_add(1, Ordering::Relaxed);
        pool.send(Request { command, replicas: None }).await
    }

    /// Sends over a connection of our own; in a cluster to the server of the probe key.
    pub(super) async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        match &self.servers {
            Servers::One { main, .. } => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                main.call(command, link::REQUEST_WITHIN).await
            }
            Servers::Cluster(cluster) => cluster.send(self.probe_key(), command).await,
        }
    }

    /// Tries the commands of the scripts; answers those that the user may not use.
    pub(super) async fn refused(&self) -> Result<Value, Fault> {
        let script = self.script(&RIGHTS);
        let mut command = script.evalsha(1);
        command.arg(&self.probe.0).arg(&self.probe.1);
        self.call(script, command).await.map_err(|unserved| unserved.fault.into_fault())
    }
}

fn strange() -> Unserved {
    Unserved { fault: Failure::Other(fault::strange("a wait for replicas")), sent: None }
}

/// Has a node go to each master in turn, for as long as somebody has it.
fn follow(node: &Arc<Node>, sentinels: &Sentinels) {
    let (node, mut terms) = (Arc::downgrade(node), sentinels.terms());
    drop(tokio::spawn(async move {
        loop {
            // Of a switch before this task came to run, too.
            let Some(now) = node.upgrade() else { return };
            now.switched();
            drop(now);
            if terms.changed().await.is_err() {
                return;
            }
        }
    }));
}

fn new_session() -> String {
    format!("{:016x}", clock::random_claim_id().bits() as u64)
}
