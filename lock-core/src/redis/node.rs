//! One Redis server: its connections, and how a script is called there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::gate::Gate;
use super::inbox::Inboxes;
use super::lanes::Lanes;
use super::link::{self, Failure, Link, Request, Unserved};
use super::origin::Origin;
#[cfg(feature = "deadpool")]
use super::pool::{Misled, RedisPool};
#[cfg(feature = "deadpool")]
use super::pooled::Pooled;
use super::renewals::Renewals;
use super::script::Script;
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
    pub(super) renewals: Renewals,
    /// Commands and pushes.
    main: Arc<Link>,
    #[cfg(feature = "deadpool")]
    pool: Option<Pooled>,
    /// Attempts that wait for replicas.
    lanes: Lanes,
    requests: Arc<AtomicU64>,
    /// What it is as a member of a quorum.
    pub(super) gate: Gate,
}

impl Node {
    /// A node that connects when it is asked for something.
    pub(super) fn new(
        origin: &Origin,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Self {
        let session = format!("{:016x}", clock::random_claim_id().bits() as u64);
        let inboxes = Arc::new(Inboxes::default());
        let requests = Arc::new(AtomicU64::new(0));
        let channel = names::channel(&session);
        let renewals = Renewals::start(Link::plain(origin.clone()), requests.clone());
        let main = Link::listening(origin.clone(), channel, inboxes.clone());
        Self {
            session,
            inboxes,
            renewals,
            main,
            #[cfg(feature = "deadpool")]
            pool: pool.map(|pool| Pooled::new(pool, origin)),
            lanes: Lanes::new(origin.clone()),
            requests,
            gate: Gate::default(),
        }
    }

    pub(super) async fn connect(
        origin: Origin,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        let node = Self::new(
            &origin,
            #[cfg(feature = "deadpool")]
            pool,
        );
        node.main.get().await?;
        node.probe().await?;
        let node = Arc::new(node);
        if let Some(sentinels) = origin.sentinels() {
            follow(&node, sentinels);
            // Of a switch before that, too.
            node.switched();
            probe::min_replicas(&node).await;
        }
        Ok(node)
    }

    /// Checks that the server will serve every verb.
    pub(super) async fn probe(&self) -> Result<(), Fault> {
        probe::rights(self).await?;
        probe::eviction(self).await;
        #[cfg(feature = "deadpool")]
        probe::pool(self).await?;
        Ok(())
    }

    /// There is another master.
    fn switched(&self) {
        #[cfg(feature = "deadpool")]
        self.pool.iter().for_each(Pooled::switched);
        self.main.follow();
        self.lanes.follow();
        self.renewals.follow();
        self.inboxes.stir();
    }

    pub(super) fn has_pool(&self) -> bool {
        #[cfg(feature = "deadpool")]
        return self.pool.is_some();
        #[cfg(not(feature = "deadpool"))]
        false
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Calls a script by its hash, and with its source if the server does not know it.
    pub(super) async fn call(&self, script: &Script, command: Cmd) -> Result<Value, Unserved> {
        match self.send(&command).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                self.send(&script.eval(&command)).await
            }
            answer => answer,
        }
    }

    /// Calls a script over the connection of our own, and says over which it was.
    pub(super) async fn call_numbered(
        &self,
        script: &Script,
        command: Cmd,
    ) -> Result<(Value, u64), Unserved> {
        match self.send_over(&command, None).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                self.send_over(&script.eval(&command), None).await
            }
            answer => answer,
        }
    }

    /// Calls a script of a member, over the connection of this number only; a pool's connections
    /// have none.
    pub(super) async fn call_member(
        &self,
        script: &Script,
        command: Cmd,
        only: Option<u64>,
    ) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        if self.has_pool() {
            return self.call(script, command).await;
        }
        let answer = match self.send_over(&command, only).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                self.send_over(&script.eval(&command), only).await
            }
            answer => answer,
        };
        answer.map(|(answer, _)| answer)
    }

    async fn send_over(&self, command: &Cmd, only: Option<u64>) -> Result<(Value, u64), Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = Request { command, replicas: None };
        self.main.exchange_over(request, only, link::REQUEST_WITHIN).await
    }

    /// Calls a script, and waits for its replication; also how many replicas acknowledged it.
    pub(super) async fn call_and_wait(
        &self,
        script: &Script,
        command: Cmd,
        replicas: Replicas,
    ) -> Result<(Value, u32), Unserved> {
        let answer = match self.send_and_wait(&command, replicas).await {
            Err(unserved) if unserved.fault.is_no_script() => {
                self.send_and_wait(&script.eval(&command), replicas).await
            }
            answer => answer,
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

    async fn send_and_wait(&self, command: &Cmd, replicas: Replicas) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        match self.send_pooled(Request { command, replicas: Some(replicas) }).await {
            Err(misled) if misled.is_elsewhere => {}
            answer => return answer.map_err(|misled| misled.unserved),
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lanes.call_and_wait(command, replicas).await
    }

    /// Calls a script over a connection of the past.
    pub(super) async fn call_over(
        connection: &mut MultiplexedConnection,
        script: &Script,
        command: &Cmd,
    ) -> Result<Value, Failure> {
        link::send(connection, &script.eval(command), link::REQUEST_WITHIN).await
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        match self.send_pooled(Request { command, replicas: None }).await {
            Err(misled) if misled.is_elsewhere => {}
            answer => return answer.map_err(|misled| misled.unserved),
        }
        self.send_main(command).await
    }

    /// Sends through the application's pool. Elsewhere leads one that is not there, too.
    #[cfg(feature = "deadpool")]
    pub(super) async fn send_pooled(&self, request: Request<'_>) -> Result<Value, Misled> {
        let Some(pool) = &self.pool else { return Err(Misled::nowhere()) };
        self.requests.fetch_add(1, Ordering::Relaxed);
        // On the heap: few have a pool, and all would carry its place.
        Box::pin(pool.send(request, &self.main)).await
    }

    /// Sends over the connection of our own.
    pub(super) async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.main.call(command, link::REQUEST_WITHIN).await
    }
}

fn strange() -> Unserved {
    Unserved { fault: Failure::Other(fault::strange("a wait for replicas")), sent: None }
}

/// Has a node go to each master in turn, for as long as somebody has it.
fn follow(node: &Arc<Node>, sentinels: &Sentinels) {
    let (node, mut terms) = (Arc::downgrade(node), sentinels.terms());
    drop(tokio::spawn(async move {
        while terms.changed().await.is_ok() {
            let Some(node) = node.upgrade() else { return };
            node.switched();
        }
    }));
}
