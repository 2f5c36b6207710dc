//! What a client has: a session and inboxes, and one server or a cluster of them. How a script is
//! called there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::batch::{Answer, Batches, Part};
use super::cluster::{self, Cluster, Listening};
use super::gate::Gate;
use super::inbox::Inboxes;
use super::link::{Link, Numbered};
use super::names::{Names, Owner};
use super::one::{One, Over};
use super::origin::Origin;
#[cfg(feature = "deadpool")]
use super::pool::{Misled, RedisPool};
use super::renewals::{Renew, Renewed};
#[cfg(feature = "deadpool")]
use super::request::Request;
use super::request::{self, Failure, Unserved};
use super::script::{RIGHTS, Script};
use super::sentinel::Sentinels;
use super::{fault, names, probe};
use crate::backend::{ClaimId, Fault, FaultKind};
use crate::engine::{clock, timeout};
use crate::options::Replicas;

/// How long a claim that has to wait lets it take until its pushes are heard.
const HEARD_WITHIN: Duration = Duration::from_millis(300);

/// See the module.
#[derive(Debug)]
pub(super) struct Node {
    /// 64 random bits that name this client.
    pub(super) session: Arc<str>,
    pub(super) inboxes: Arc<Inboxes>,
    servers: Servers,
    /// A key that no lock has, and the channel on which its grants would be pushed.
    probe: (String, String),
    requests: Arc<AtomicU64>,
    /// What it is as a member of a quorum.
    pub(super) gate: Gate,
}

#[derive(Debug)]
enum Servers {
    One(Box<One>),
    Cluster {
        cluster: Arc<Cluster>,
        #[cfg(feature = "deadpool")]
        pool: Option<RedisPool>,
    },
}

impl Node {
    /// A node that connects when it is asked for something.
    pub(super) fn new(
        origin: &Origin,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Self {
        let (session, inboxes) = (new_session(), Arc::new(Inboxes::default()));
        let (channel, requests) = (names::channel(&session), Arc::new(AtomicU64::new(0)));
        let one = One::new(
            origin,
            session.clone(),
            channel.clone(),
            inboxes.clone(),
            requests.clone(),
            #[cfg(feature = "deadpool")]
            pool,
        );
        Self {
            probe: (format!("lock:{{probe-{session}}}"), channel),
            session,
            inboxes,
            servers: Servers::One(one.into()),
            requests,
            gate: Gate::default(),
        }
    }

    /// Connects to one server, or to the one that sentinels name.
    pub(super) async fn connect(
        origin: Origin,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        let node = Self::new(
            &origin,
            #[cfg(feature = "deadpool")]
            pool,
        );
        if let Servers::One(one) = &node.servers {
            one.main.get().await?;
        }
        node.probe().await?;
        let node = Arc::new(node);
        if let Some(sentinels) = origin.sentinels() {
            follow(&node, sentinels);
            probe::min_replicas(&node).await;
        }
        Ok(node)
    }

    /// Connects to a cluster.
    pub(super) async fn connect_cluster(
        target: cluster::Target,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        super::url::install_tls();
        let (session, inboxes) = (new_session(), Arc::new(Inboxes::default()));
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
            servers: Servers::Cluster {
                cluster,
                #[cfg(feature = "deadpool")]
                pool,
            },
            requests,
            gate: Gate::default(),
        };
        node.probe_beside(&refused).await?;
        Ok(Arc::new(node))
    }

    /// Checks that the server will serve every verb.
    pub(super) async fn probe(&self) -> Result<(), Fault> {
        if let Servers::One(one) = &self.servers {
            probe::no_cluster(one.here()).await?;
        }
        self.probe_beside(&[]).await
    }

    async fn probe_beside(&self, refused: &[&str]) -> Result<(), Fault> {
        #[cfg(feature = "deadpool")]
        probe::kind_of_pool(self)?;
        probe::rights_beside(self, refused).await?;
        probe::eviction(self).await;
        #[cfg(feature = "deadpool")]
        probe::pool(self).await?;
        Ok(())
    }

    /// There is another master.
    fn switched(&self) {
        if let Servers::One(one) = &self.servers {
            one.switched();
            self.inboxes.stir();
        }
    }

    /// Whether what was pushed in this term counts still.
    pub(super) fn is_current(&self, term: u64) -> bool {
        match &self.servers {
            Servers::One(one) => one.main.is_current(term),
            Servers::Cluster { .. } => true,
        }
    }

    pub(super) fn has_pool(&self) -> bool {
        #[cfg(feature = "deadpool")]
        return match &self.servers {
            Servers::One(one) => one.pool.is_some(),
            Servers::Cluster { pool, .. } => pool.is_some(),
        };
        #[cfg(not(feature = "deadpool"))]
        false
    }

    /// Whether its pool is of a cluster, if it has one.
    #[cfg(feature = "deadpool")]
    pub(super) fn has_pool_of_cluster(&self) -> Option<bool> {
        match &self.servers {
            Servers::One(one) => one.pool.as_ref().map(|pool| pool.is_of_cluster()),
            Servers::Cluster { pool, .. } => pool.as_ref().map(RedisPool::is_of_cluster),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.servers {
            Servers::One(_) => None,
            Servers::Cluster { cluster, .. } => Some(cluster),
        }
    }

    /// A key of this client's own that no lock has, for trying things.
    pub(super) fn probe_key(&self) -> &str {
        &self.probe.0
    }

    /// The clock of a server, in a cluster of the one where things are tried.
    fn clock(&self) -> String {
        match &self.servers {
            Servers::One(_) => names::CLOCK.into(),
            Servers::Cluster { .. } => {
                names::clock(cluster::tag_of(cluster::slot_of(self.probe.0.as_bytes())))
            }
        }
    }

    /// The script as these servers run it.
    pub(super) fn script<'a>(&self, script: &'a Script) -> &'a Script {
        if self.cluster().is_some() { script.sharded() } else { script }
    }

    /// A call of a script for one lock; the caller adds arguments.
    pub(super) fn command(&self, script: &Script, names: &Names) -> Cmd {
        let tag = self.cluster().map(|_| cluster::tag_of(self.slot(names)));
        self.script(script).on(names, tag)
    }

    /// Where the keys of a lock are in a cluster.
    pub(super) fn slot(&self, names: &Names) -> u16 {
        self.cluster().map_or(0, |_| cluster::slot_of(names.tag()))
    }

    /// Sees to it that pushes for a lock are heard, where that is not so anyway.
    pub(super) fn listen(&self, names: &Names, claim: ClaimId) -> Option<Listening> {
        self.cluster()?.listen(names, claim)
    }

    /// Whether what is pushed for a claim now would be heard.
    pub(super) fn is_heard(&self, listening: Option<&Listening>) -> bool {
        match &self.servers {
            Servers::One(one) => one.is_heard(),
            Servers::Cluster { .. } => listening.is_none_or(Listening::is_on),
        }
    }

    /// Waits until it would be, and not for long.
    pub(super) async fn heard(&self, listening: Option<&Listening>) {
        let heard = async {
            match (&self.servers, listening) {
                (Servers::One(one), _) => one.main.there().await,
                (Servers::Cluster { .. }, Some(listening)) => listening.on().await,
                (Servers::Cluster { .. }, None) => {}
            }
        };
        let _late = timeout::within(HEARD_WITHIN, heard).await;
    }

    /// Over which a server is asked at once.
    fn at_hand(&self) -> Option<(&Arc<Link>, Numbered)> {
        match &self.servers {
            Servers::One(one) => one.at_hand(),
            Servers::Cluster { .. } => None,
        }
    }

    /// Where claims on free keys ask together, if enough of them ask alone.
    fn batches(&self) -> Option<&Batches> {
        match &self.servers {
            Servers::One(one) => one.batches(),
            Servers::Cluster { .. } => None,
        }
    }

    /// Asks together with others that are about to, if there are enough: else, or if that did not
    /// do, the claim is to ask alone.
    pub(super) async fn ask_with_others(
        &self,
        part: impl FnOnce() -> Part,
    ) -> Result<Answer, Unserved> {
        match self.batches().filter(|batches| batches.is_crowded()) {
            Some(batches) => Box::pin(batches.ask(part())).await,
            None => Ok(Answer::AskAlone),
        }
    }

    /// Calls a script by its hash, and with its source if the server does not know it.
    pub(super) async fn call(&self, script: &Script, command: Cmd) -> Result<Value, Unserved> {
        if let Some(cluster) = self.cluster() {
            // Past the pool, which does not tell which node answered: it may be a master that was
            // cut off and succeeded. On the heap: its way is long, and all would carry it.
            return Box::pin(cluster.call(script, &command)).await;
        }
        // What is not as it mostly is, is on the heap: a call is a part of every request.
        let answer = match self.at_hand() {
            Some((link, connection)) => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                let _alone = self.batches().map(Batches::alone);
                link.send(connection, &command).await
            }
            None => Box::pin(self.send(&command)).await,
        };
        match answer {
            Err(unserved) if unserved.fault.is_no_script() => {
                Box::pin(self.send(&script.eval(&command))).await
            }
            answer => answer,
        }
    }

    /// Calls a script over the connection of our own, and says over which it was.
    pub(super) async fn call_numbered(
        &self,
        script: &Script,
        command: Cmd,
    ) -> Result<(Value, Over), Unserved> {
        let Servers::One(one) = &self.servers else { return Err(no_member()) };
        match one.send_over(&command, None).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                one.send_over(&script.eval(&command), None).await
            }
            answer => answer,
        }
    }

    /// Calls a script of a member, over this connection only if one is given; a pool's cannot be
    /// told apart.
    pub(super) async fn call_member(
        &self,
        script: &Script,
        command: Cmd,
        only: Option<Over>,
    ) -> Result<Value, Unserved> {
        let Servers::One(one) = &self.servers else { return Err(no_member()) };
        #[cfg(feature = "deadpool")]
        if self.has_pool() {
            return self.call(script, command).await;
        }
        let answer = match one.send_over(&command, only).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                one.send_over(&script.eval(&command), only).await
            }
            answer => answer,
        };
        answer.map(|(answer, _)| answer)
    }

    /// Calls a script, and waits for its replication; also how many replicas acknowledged it.
    pub(super) async fn call_and_wait(
        &self,
        script: &Script,
        command: Cmd,
        replicas: Replicas,
    ) -> Result<(Value, u32), Unserved> {
        let answer = match &self.servers {
            Servers::One(one) => match one.send_and_wait(&command, replicas).await {
                Err(unserved) if unserved.fault.is_no_script() => {
                    one.send_and_wait(&script.eval(&command), replicas).await
                }
                answer => answer,
            },
            Servers::Cluster { cluster, .. } => {
                cluster.call_and_wait(script, &command, replicas).await
            }
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

    /// Calls `script` to withdraw. `held`: the claim held its lock, as far as is known.
    pub(super) async fn withdraw(
        &self,
        script: &Script,
        command: Cmd,
        names: &Names,
        owner: Owner<'_>,
        held: bool,
    ) -> Result<Value, Unserved> {
        let script = self.script(script);
        let Some(cluster) = self.cluster() else { return self.call(script, command).await };
        Box::pin(cluster.withdraw(script, &command, names, owner, held)).await
    }

    /// Renews one claim.
    pub(super) async fn renew(&self, renew: Renew) -> Result<Renewed, Fault> {
        match &self.servers {
            Servers::One(one) => one.renewals.renew(renew).await.map_err(Failure::into_fault),
            Servers::Cluster { cluster, .. } => Box::pin(cluster.renew(renew)).await,
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
            request::send_each(connection, &commands, request::REQUEST_WITHIN).await.map(drop)
        } else {
            request::send(connection, &command, request::REQUEST_WITHIN).await.map(drop)
        }
    }

    async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        match &self.servers {
            Servers::One(one) => one.send(command).await,
            Servers::Cluster { .. } => Box::pin(self.send_main(command)).await,
        }
    }

    /// Sends through the application's pool. Elsewhere leads one that is not there, too.
    #[cfg(feature = "deadpool")]
    pub(super) async fn send_pooled(&self, request: Request<'_>) -> Result<Value, Misled> {
        match &self.servers {
            Servers::One(one) => one.send_pooled(request).await,
            Servers::Cluster { pool: Some(pool), .. } => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                Ok(Box::pin(pool.send(request)).await?)
            }
            Servers::Cluster { .. } => Err(Misled::nowhere()),
        }
    }

    /// Sends over a connection of our own; in a cluster to the server of the probe key.
    pub(super) async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        match &self.servers {
            Servers::One(one) => one.send_main(command).await,
            Servers::Cluster { cluster, .. } => cluster.send(self.probe_key(), command).await,
        }
    }

    /// Tries the commands of the scripts; answers those that the user may not use.
    pub(super) async fn refused(&self) -> Result<Value, Fault> {
        let script = self.script(&RIGHTS);
        let mut command = script.evalsha(2);
        command.arg(&self.probe.0).arg(self.clock()).arg(&self.probe.1);
        self.call(script, command).await.map_err(|unserved| unserved.fault.into_fault())
    }
}

/// A name that no other client has.
pub(super) fn new_session() -> Arc<str> {
    format!("{:016x}", clock::random_claim_id().bits() as u64).into()
}

fn strange() -> Unserved {
    Unserved { fault: Failure::Other(fault::strange("a wait for replicas")), sent: None }
}

fn no_member() -> Unserved {
    let what = "a cluster cannot be a member of a quorum: its masters lose writes one by one";
    Unserved { fault: Failure::Other(Fault::new(FaultKind::Refused, what)), sent: None }
}

/// Has a node go to each master in turn, for as long as somebody has it.
fn follow(node: &Arc<Node>, sentinels: &Arc<Sentinels>) {
    let node = Arc::downgrade(node);
    sentinels.follow(move || {
        let node = node.upgrade();
        node.iter().for_each(|node| node.switched());
        node.is_some()
    });
}
