//! The servers that are asked, and whose answers count: one, the master that sentinels name, or a
//! cluster.
//!
//! - [`origin`]: which server a URL means.
//! - [`single`]: that server.
//! - [`pooled`]: whether an application's pool leads there.
//! - [`sentinel`]: which of several servers is the master.
//! - [`cluster`]: many servers that share the keys.
//! - [`clients`]: who else is connected to them.
//! - [`probe`]: what is checked at connect.
//! - [`gate`]: on which terms a member of a quorum is asked.

pub(in crate::redis) mod clients;
pub(in crate::redis) mod cluster;
pub(in crate::redis) mod gate;
pub(in crate::redis) mod origin;
mod pooled;
pub(in crate::redis) mod probe;
pub(in crate::redis) mod sentinel;
pub(in crate::redis) mod single;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Either;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue as _, Value};

use self::clients::Clients;
use self::cluster::{Cluster, Listening};
use self::gate::Gate;
use self::origin::{Meant, Origin};
use self::sentinel::Sentinels;
use self::single::{Over, SingleServer};
use super::protocol::layout::Layout;
use super::protocol::names::{self, Names, Owner};
use super::protocol::script::Script;
use super::protocol::slots;
use super::wire::fault;
use super::wire::free::{Answer, Part};
use super::wire::hearing::Hearing;
use super::wire::pool::RedisPool;
use super::wire::renewals::{Renew, Renewed};
use super::wire::request::{self, Call, Failure, Request, Unserved, WrongServer};
use super::wire::session::Session;
use crate::backend::io::Home;
use crate::backend::{ClaimId, Fault, FaultKind, NotReplicated, Replicas};
use crate::ground::{background, timeout};

/// The longest that a claim which has to wait is kept until its pushes are heard.
pub(in crate::redis) const HEARD_WITHIN: Duration = Duration::from_millis(300);

/// The servers of a client, and what it is to them.
#[derive(Debug)]
pub(in crate::redis) struct Topology {
    pub(in crate::redis) session: Arc<Session>,
    layout: Layout,
    servers: Servers,
    /// A key that no lock has, and a channel for it.
    probe: (String, String),
    clients: Clients,
    /// The gate that a member of a quorum is asked through.
    pub(in crate::redis) gate: Gate,
}

#[derive(Debug)]
enum Servers {
    Single(Box<SingleServer>),
    Cluster(Arc<Cluster>),
}

impl Topology {
    /// One server, or one at a time, that is connected to when it is asked for something.
    /// The server is told of whom the connections are, if there is a label.
    pub(in crate::redis) fn new(
        origin: &Origin,
        label: Option<&str>,
        pool: Option<RedisPool>,
    ) -> Self {
        Self::written(Layout::Own, origin, label, pool)
    }

    /// The same, whose locks are written so.
    fn written(
        layout: Layout,
        origin: &Origin,
        label: Option<&str>,
        pool: Option<RedisPool>,
    ) -> Self {
        let session = Session::new(label);
        let clients = Clients::beside(&session);
        let channel = names::channel(&session.id);
        let single = SingleServer::new(origin, session.clone(), channel, pool);
        let scratch = format!("lock:{{probe-{}}}", session.id);
        Self {
            probe: (scratch, layout.probe_channel(&session.id)),
            session,
            layout,
            servers: Servers::Single(single.into()),
            clients,
            gate: Gate::default(),
        }
    }

    /// Connects to what a URL means, for a client of this label.
    pub(in crate::redis) async fn connect(
        meant: Meant,
        label: &str,
        pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        match meant {
            Meant::Single(origin) => Self::connect_single(Layout::Own, origin, label, pool).await,
            Meant::Cluster(target) => Self::connect_cluster(target, label, pool).await,
        }
    }

    /// Connects to one server, or to the one that sentinels name, whose locks are written so.
    pub(in crate::redis) async fn connect_single(
        layout: Layout,
        origin: Origin,
        label: &str,
        pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        let this = Self::written(layout, &origin, Some(label), pool);
        if let Servers::Single(single) = &this.servers {
            single.main.get(request::REQUEST_WITHIN).await?;
        }
        this.probe().await?;
        let this = Arc::new(this);
        if let Some(sentinels) = origin.sentinels() {
            follow(&this, sentinels);
            probe::min_replicas(&this).await;
        }
        Ok(this)
    }

    /// Connects to a cluster.
    async fn connect_cluster(
        target: cluster::Target,
        label: &str,
        pool: Option<RedisPool>,
    ) -> Result<Arc<Self>, Fault> {
        if pool.is_some() {
            let what = "locks at a cluster do not go through a pool, which does not tell the node \
                        that answered: give the URL alone";
            return Err(Fault::new(FaultKind::Refused, what));
        }
        let session = Session::new(Some(label));
        let cluster = Cluster::connect(target, session.clone()).await?;
        let clients = Clients::beside(&session);
        // The key is at a node that answers: another may be about to be succeeded.
        let (slot, refused) = cluster.refused(true).await?;
        let key = format!("lock:{{{}}}:probe-{}", slots::tag_of(slot), session.id);
        let this = Self {
            probe: (key, slots::channel(slot, &session.id)),
            session,
            layout: Layout::Own,
            servers: Servers::Cluster(cluster),
            clients,
            gate: Gate::default(),
        };
        probe::rights_beside(&this, &refused).await?;
        probe::eviction(&this).await;
        Ok(Arc::new(this))
    }

    /// Checks that one server will serve every verb.
    pub(in crate::redis) async fn probe(&self) -> Result<(), Fault> {
        let Servers::Single(single) = &self.servers else { return Ok(()) };
        probe::no_cluster(&single.main).await?;
        single.has_fitting_pool()?;
        probe::rights_beside(self, &[]).await?;
        probe::eviction(self).await;
        self.try_pool().await
    }

    /// Sees where the application's pool leads, if that is not known yet. Not in the conductor's
    /// hands: the connections of a pool live where they are asked for.
    pub(in crate::redis) async fn try_pool(&self) -> Result<(), Fault> {
        match &self.servers {
            Servers::Single(single) if single.has_untried_pool() && !background::is_here() => {
                probe::pool(self).await?;
                single.pool_fits();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// There is another master.
    fn switched(&self) {
        if let Servers::Single(single) = &self.servers {
            single.switched();
            self.session.inboxes.stir();
        }
    }

    /// How locks are written there.
    pub(in crate::redis) fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether a push of this term counts still.
    pub(in crate::redis) fn is_current(&self, term: u64) -> bool {
        match &self.servers {
            Servers::Single(single) => single.main.is_current(term),
            Servers::Cluster(_) => true,
        }
    }

    /// Has a claim wait at a channel; nobody does in a cluster.
    pub(in crate::redis) fn hear(&self, channel: &str, claim: ClaimId) -> Option<Hearing> {
        match &self.servers {
            Servers::Single(single) => Some(single.hear(channel, claim)),
            Servers::Cluster(_) => None,
        }
    }

    /// Whether this client listens to a channel of claims, as far as the server was told.
    pub(in crate::redis) fn listens(&self, channel: &str) -> bool {
        match &self.servers {
            Servers::Single(single) => single.main.listens(channel),
            Servers::Cluster(_) => false,
        }
    }

    /// The home of its connections.
    pub(in crate::redis) fn home(&self) -> &Arc<Home> {
        match &self.servers {
            Servers::Single(single) => single.main.home(),
            Servers::Cluster(cluster) => cluster.home(),
        }
    }

    pub(in crate::redis) fn has_pool(&self) -> bool {
        matches!(&self.servers, Servers::Single(single) if single.has_pool())
    }

    pub(in crate::redis) fn requests(&self) -> u64 {
        self.session.requests()
    }

    pub(in crate::redis) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.servers {
            Servers::Single(_) => None,
            Servers::Cluster(cluster) => Some(cluster),
        }
    }

    /// A key of this client's own that no lock has, for trying things.
    pub(in crate::redis) fn probe_key(&self) -> &str {
        &self.probe.0
    }

    /// The script as these servers run it.
    pub(in crate::redis) fn script(&self, script: &'static Script) -> &'static Script {
        if self.cluster().is_some() { script.sharded() } else { script }
    }

    /// A call of a script for one lock; the caller adds arguments. `together`: it names the keys of
    /// those who hold the lock together, where keys have to be named.
    pub(in crate::redis) fn call_for(
        &self,
        script: &'static Script,
        names: &Names,
        together: bool,
    ) -> Call {
        let (script, slot) = (self.script(script), self.slot(names));
        let tag = self.cluster().map(|_| slots::tag_of(slot));
        Call { script, command: script.on(names, tag, together), slot }
    }

    /// The slot of a lock's keys in a cluster.
    pub(in crate::redis) fn slot(&self, names: &Names) -> u16 {
        self.cluster().map_or(0, |_| slots::slot_of(names.tag()))
    }

    /// A slot of each server that has any.
    pub(in crate::redis) fn one_slot_each(&self) -> Vec<u16> {
        self.cluster().map_or_else(|| vec![0], |cluster| cluster.one_slot_each())
    }

    /// Sees to it that pushes for a lock are heard, where that is not so anyway.
    pub(in crate::redis) fn listen(&self, names: &Names, claim: ClaimId) -> Option<Listening> {
        self.cluster()?.listen(self.slot(names), claim)
    }

    /// Whether a push for a claim would be heard now.
    pub(in crate::redis) fn is_heard(&self, listening: Option<&Listening>) -> bool {
        match &self.servers {
            Servers::Single(single) => single.is_heard(),
            Servers::Cluster(_) => listening.is_none_or(Listening::is_on),
        }
    }

    /// Waits until it would be, and not for long.
    pub(in crate::redis) async fn heard(&self, listening: Option<&Listening>) {
        let heard = async {
            match (&self.servers, listening) {
                (Servers::Single(single), _) => single.main.there().await,
                (Servers::Cluster(_), Some(listening)) => listening.on().await,
                (Servers::Cluster(_), None) => {}
            }
        };
        let _late = timeout::within(HEARD_WITHIN, heard).await;
    }

    /// Asks together with others that are about to ask, if there are enough. Otherwise, or if that
    /// was not enough, the claim is to ask alone.
    pub(in crate::redis) async fn ask_with_others(
        &self,
        part: impl FnOnce() -> Part,
    ) -> Result<Answer, Unserved> {
        let free_keys = match &self.servers {
            Servers::Single(single) => single.free_keys(),
            Servers::Cluster(_) => None,
        };
        match free_keys.filter(|free_keys| free_keys.is_crowded()) {
            Some(free_keys) => Box::pin(free_keys.ask(part())).await,
            None => Ok(Answer::AskAlone),
        }
    }

    /// Calls a script.
    pub(in crate::redis) async fn call(&self, call: Call) -> Result<Value, Unserved> {
        let single = match &self.servers {
            Servers::Single(single) => single,
            // The call is on the heap: its way is long, and all would carry it.
            Servers::Cluster(cluster) => return Box::pin(cluster.call(&call)).await,
        };
        // Rare ways are on the heap, as a call is a part of every request.
        let answer = match single.at_hand() {
            Some((connection, current, _asking)) if !current.is_back() => {
                self.session.count();
                connection.send(current, &call.command).await
            }
            _ => return Box::pin(single.call(&call)).await,
        };
        match call.in_full(&answer) {
            Some(command) => Box::pin(single.send(&command)).await,
            None => answer,
        }
    }

    /// Makes a call that renews a claim as well: where renewals go, and in their time.
    pub(in crate::redis) async fn call_to_renew(
        &self,
        call: &Call,
        within: Duration,
    ) -> Result<Value, Unserved> {
        let single = match &self.servers {
            Servers::Single(single) => single,
            Servers::Cluster(cluster) => {
                return Box::pin(cluster.call_to_renew(call, within)).await;
            }
        };
        self.session.count();
        let connection = single.renewals.connection();
        let answer = connection.call(&call.command, within).await;
        match call.in_full(&answer) {
            Some(command) => connection.call(&command, within).await,
            None => answer,
        }
    }

    /// Calls a script at the member of a quorum that this is, over a connection of our own; if one
    /// is given, over that only. Returns also which connection it was.
    pub(in crate::redis) async fn call_over(
        &self,
        call: &Call,
        only: Option<Over>,
    ) -> Result<(Value, Over), Unserved> {
        let Servers::Single(single) = &self.servers else { return Err(no_member()) };
        let call = call.fitting(single.main.is_back());
        let answer = single.send_over(&call.command, only).await;
        match call.in_full(&answer) {
            Some(command) => single.send_over(&command, only).await,
            None => answer,
        }
    }

    /// Calls a script, and has its effect replicated; also what is wrong with that.
    pub(in crate::redis) async fn call_replicated(
        &self,
        call: Call,
        replicas: Replicas,
    ) -> Result<(Value, Option<NotReplicated>), Unserved> {
        let (answer, acknowledged) = self.call_and_wait(call, replicas).await?;
        let Replicas { count: wanted, timeout } = replicas;
        let found = NotReplicated { wanted, acknowledged, timeout };
        Ok((answer, (acknowledged < wanted).then_some(found)))
    }

    /// Calls a script, and waits for its replication; also how many replicas acknowledged it.
    async fn call_and_wait(
        &self,
        call: Call,
        replicas: Replicas,
    ) -> Result<(Value, u32), Unserved> {
        let answer = match &self.servers {
            Servers::Single(single) => {
                let call = call.fitting(single.main.is_back());
                let answer = single.send_and_wait(&call.command, replicas).await;
                match call.in_full(&answer) {
                    Some(command) => single.send_and_wait(&command, replicas).await,
                    None => answer,
                }
            }
            Servers::Cluster(cluster) => cluster.call_and_wait(&call, replicas).await,
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

    /// Makes a call that withdraws a claim. `held`: it held its lock, as far as is known.
    pub(in crate::redis) async fn withdraw(
        &self,
        call: Call,
        names: &Names,
        owner: Owner<'_>,
        held: bool,
    ) -> Result<Value, Unserved> {
        let Some(cluster) = self.cluster() else { return self.call(call).await };
        Box::pin(cluster.withdraw(&call, names, owner, held)).await
    }

    /// Renews one claim.
    pub(in crate::redis) fn renew(
        &self,
        renew: Renew,
    ) -> impl Future<Output = Result<Renewed, Fault>> {
        match &self.servers {
            Servers::Single(single) => {
                let renewed = single.renewals.renew(renew);
                Either::Left(renewed.map(|answer| answer.map_err(Failure::into_fault)))
            }
            Servers::Cluster(cluster) => Either::Right(Box::pin(cluster.renew(renew))),
        }
    }

    /// Makes a call over a connection of the past.
    pub(in crate::redis) async fn call_behind(
        &self,
        connection: &mut MultiplexedConnection,
        call: &Call,
    ) -> Result<(), Failure> {
        let command = call.script.eval(&call.command);
        if self.cluster().is_some() {
            // It may have been asked for a slot that was on its way there.
            let commands = cluster::asked(&command);
            request::send_each(connection, &commands, request::REQUEST_WITHIN).await.map(drop)
        } else {
            request::send(connection, &command, request::REQUEST_WITHIN).await.map(drop)
        }
    }

    /// Sends through the application's pool, if there is one.
    async fn send_pooled(&self, command: &Cmd) -> Result<Value, WrongServer> {
        match &self.servers {
            Servers::Single(single) => {
                single.send_pooled(Request { command, replicas: None }).await
            }
            Servers::Cluster(_) => Err(WrongServer::nowhere()),
        }
    }

    /// Sends over a connection of our own; in a cluster to the server of the probe key.
    async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.send_to(slots::slot_of(self.probe_key().as_bytes()), command).await
    }

    /// Sends over a connection of our own; in a cluster to the server of this slot.
    pub(in crate::redis) async fn send_to(
        &self,
        slot: u16,
        command: &Cmd,
    ) -> Result<Value, Unserved> {
        match &self.servers {
            Servers::Single(single) => single.send_main(command).await,
            Servers::Cluster(cluster) => cluster.send(slot, command).await,
        }
    }

    /// Until when a request that is sent next may be done, by the clock of the server of this slot, in
    /// ms. What takes a key from whoever holds it is not to be done later: there may be another holder.
    pub(in crate::redis) async fn until(&self, slot: u16) -> Result<u64, Fault> {
        let answer = self.send_to(slot, &redis::cmd("TIME")).await;
        let answer = answer.map_err(|unserved| unserved.fault.into_fault().unsent())?;
        let (seconds, micros) = <(u64, u64)>::from_redis_value(answer)
            .map_err(|_| fault::strange("the time").unsent())?;
        Ok((seconds + request::REQUEST_WITHIN.as_secs()) * 1_000 + micros / 1_000)
    }

    /// Tries the commands of the scripts; answers those that the user may not use.
    async fn refused(&self) -> Result<Value, Fault> {
        let slot = slots::slot_of(self.probe_key().as_bytes());
        let clock = match &self.servers {
            Servers::Single(_) => names::CLOCK.into(),
            Servers::Cluster(_) => names::clock(slots::tag_of(slot)),
        };
        let script = self.script(self.layout.rights());
        let mut command = script.evalsha(2);
        command.arg(&self.probe.0).arg(clock).arg(&self.probe.1);
        let answer = self.call(Call { script, command, slot }).await;
        answer.map_err(|unserved| unserved.fault.into_fault())
    }
}

fn strange() -> Unserved {
    Unserved { fault: Failure::Other(fault::strange("a wait for replicas")), sent: None }
}

fn no_member() -> Unserved {
    let what = "a cluster cannot be a member of a quorum: its masters lose writes one by one";
    Unserved { fault: Failure::Other(Fault::new(FaultKind::Refused, what)), sent: None }
}

/// Has a client go to each master in turn, for as long as somebody has it.
fn follow(topology: &Arc<Topology>, sentinels: &Arc<Sentinels>) {
    let topology = Arc::downgrade(topology);
    sentinels.follow(move || {
        let topology = topology.upgrade();
        topology.iter().for_each(|topology| topology.switched());
        topology.is_some()
    });
}
