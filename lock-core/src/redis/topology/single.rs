//! One server at a time: its connections.

use std::sync::Arc;

use redis::{Cmd, Value};

use super::origin::Origin;
use super::pooled::Pooled;
use crate::backend::Replicas;
use crate::backend::{ClaimId, Fault, FaultKind};
use crate::ground::background;
use crate::redis::wire::connection::{Connection, Current};
use crate::redis::wire::free::{Asking, FreeKeys};
use crate::redis::wire::hearing::Hearing;
use crate::redis::wire::lanes::Lanes;
use crate::redis::wire::pool::RedisPool;
use crate::redis::wire::renewals::{Renewals, Shape};
use crate::redis::wire::request::{self, Call, Request, Unserved, WrongServer};
use crate::redis::wire::session::Session;

/// The number of a connection to a server, one after the other.
#[derive(Debug, Clone, Copy)]
pub(in crate::redis) struct Over(pub(super) u64);

/// The connections to one server, or to the master that sentinels name.
#[derive(Debug)]
pub(in crate::redis) struct SingleServer {
    pub(in crate::redis) renewals: Renewals,
    /// The requests of claims on free keys, which go together.
    free_keys: FreeKeys,
    /// All but renewals and what waits for replicas, and pushes.
    pub(in crate::redis) main: Arc<Connection>,
    pool: Option<Pooled>,
    /// Attempts that wait for replicas.
    lanes: Lanes,
    session: Arc<Session>,
}

impl SingleServer {
    pub(in crate::redis) fn new(
        origin: &Origin,
        session: Arc<Session>,
        channel: String,
        pool: Option<RedisPool>,
    ) -> Self {
        let route = origin.route();
        let tracking = Connection::tracking(route.clone(), session.clone());
        let renewals = Renewals::new(tracking, session.clone(), Shape::Whole);
        let main = Connection::listening(route.clone(), session.clone(), channel);
        let free_keys = FreeKeys::new(main.clone(), session.clone());
        Self {
            renewals,
            free_keys,
            main,
            pool: pool.map(|pool| Pooled::new(pool, origin)),
            lanes: Lanes::new(route),
            session,
        }
    }

    pub(super) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// Whether there is a pool of which nobody has seen where it leads.
    pub(super) fn has_untried_pool(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| !pool.fits())
    }

    pub(super) fn pool_fits(&self) {
        self.pool.iter().for_each(Pooled::does_fit);
    }

    /// Whether the application's pool, if there is one, is of one server, too.
    pub(super) fn has_fitting_pool(&self) -> Result<(), Fault> {
        if !self.pool.as_ref().is_some_and(Pooled::is_of_cluster) {
            return Ok(());
        }
        let what = "the pool is of a cluster, and the URL is not: give `redis+cluster:` alone";
        Err(Fault::new(FaultKind::Refused, what))
    }

    /// There is another master.
    pub(in crate::redis) fn switched(&self) {
        self.pool.iter().for_each(Pooled::switched);
        self.main.follow();
        self.lanes.follow();
        self.renewals.follow();
    }

    /// The connection that a request is sent over at once: it is there, and leads to this server
    /// only. The request counts as asking until the last of these is dropped.
    pub(super) fn at_hand(&self) -> Option<(&Arc<Connection>, Current, Asking<'_>)> {
        let free_keys = self.free_keys()?;
        Some((&self.main, self.main.at_hand()?, free_keys.asking()))
    }

    /// Calls a script.
    pub(super) async fn call(&self, call: &Call) -> Result<Value, Unserved> {
        let call = call.fitting(self.main.is_back());
        let answer = self.send(&call.command).await;
        match call.in_full(&answer) {
            Some(command) => self.send(&command).await,
            None => answer,
        }
    }

    /// The place where claims on free keys ask together, if whoever polls this has one.
    pub(super) fn free_keys(&self) -> Option<&FreeKeys> {
        self.pool().is_none().then_some(&self.free_keys)
    }

    /// Whether a push would be heard now; if not, it is seen to.
    pub(in crate::redis) fn is_heard(&self) -> bool {
        // Over the connection that listens, nothing is sent before it does.
        self.pool.is_none() || self.main.is_there()
    }

    /// Has a claim wait at a channel.
    pub(super) fn hear(&self, channel: &str, claim: ClaimId) -> Hearing {
        Hearing::new(self.main.clone(), self.session.clone(), channel, claim)
    }

    /// The application's pool, once it was seen where it leads. Its connections are served by the
    /// application's runtimes, so the conductor has none.
    fn pool(&self) -> Option<&Pooled> {
        self.pool.as_ref().filter(|pool| pool.fits() && !background::is_here())
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        if self.pool().is_none() {
            return self.send_main(command).await;
        }
        let wrong = match self.send_pooled(Request { command, replicas: None }).await {
            Ok(answer) => return Ok(answer),
            Err(wrong) => wrong,
        };
        let Some(number) = wrong.again else { return Err(wrong.unserved) };
        match Box::pin(self.send_over(command, Some(Over(number)))).await {
            // What leads there by now may lead to where it has run.
            Err(gone) if gone.is_unready() => Err(wrong.unserved),
            answer => answer.map(|(answer, _)| answer),
        }
    }

    pub(in crate::redis) async fn send_and_wait(
        &self,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        if self.pool().is_some() {
            match self.send_pooled(Request { command, replicas: Some(replicas) }).await {
                // An attempt, which one claim may make twice.
                Err(wrong) if wrong.again.is_some() => {}
                answer => return answer.map_err(|wrong| wrong.unserved),
            }
        }
        self.session.count();
        self.lanes.call_and_wait(command, replicas).await
    }

    /// Sends through the application's pool, if there is one.
    pub(in crate::redis) async fn send_pooled(
        &self,
        request: Request<'_>,
    ) -> Result<Value, WrongServer> {
        let Some(pool) = &self.pool else { return Err(WrongServer::nowhere()) };
        self.session.count();
        // The request is on the heap: few have a pool, and all would carry its place.
        Box::pin(pool.send(request, &self.main)).await
    }

    /// Sends over a connection of our own.
    pub(in crate::redis) async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.session.count();
        self.main.call(command, request::REQUEST_WITHIN).await
    }

    /// Sends over this connection only, if one is given; also that which it was sent over.
    pub(in crate::redis) async fn send_over(
        &self,
        command: &Cmd,
        only: Option<Over>,
    ) -> Result<(Value, Over), Unserved> {
        self.session.count();
        let request = Request { command, replicas: None };
        let only = only.map(|Over(number)| number);
        let sending = self.main.exchange_over(request, only, request::REQUEST_WITHIN);
        let (answer, number) = sending.await?;
        Ok((answer, Over(number)))
    }
}
