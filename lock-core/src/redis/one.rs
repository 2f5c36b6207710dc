//! One server at a time: its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, Value};

use super::batch::Batches;
use super::inbox::Inboxes;
use super::lanes::Lanes;
use super::link::{Link, Numbered};
use super::origin::Origin;
#[cfg(feature = "deadpool")]
use super::pool::{Misled, RedisPool};
#[cfg(feature = "deadpool")]
use super::pooled::Pooled;
use super::renewals::{Renewals, Shape};
use super::request::{self, Request, Unserved};
use super::sides::{Side, Sides};
use crate::options::Replicas;

/// A connection of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Over {
    pub(super) side: Side,
    /// Which one of that side.
    number: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct One {
    pub(super) renewals: Renewals,
    /// What claims on free keys ask together.
    batches: Batches,
    /// Commands of the application, and pushes.
    pub(super) main: Arc<Link>,
    /// All that the conductor sends, renewals too.
    conductor: Arc<Link>,
    #[cfg(feature = "deadpool")]
    pub(super) pool: Option<Pooled>,
    /// Attempts that wait for replicas.
    lanes: Sides<Lanes>,
    requests: Arc<AtomicU64>,
}

impl One {
    pub(super) fn new(
        origin: &Origin,
        session: Arc<str>,
        channel: String,
        inboxes: Arc<Inboxes>,
        requests: Arc<AtomicU64>,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Self {
        let tracking = |side| Link::tracking(origin.clone(), side, inboxes.clone());
        let conductor = tracking(Side::Conductor);
        let link = |side| match side {
            Side::Application => tracking(side),
            Side::Conductor => conductor.clone(),
        };
        let renewals = Renewals::new(link, &session, &requests, Shape::Whole);
        let main = Link::listening(origin.clone(), channel, inboxes);
        let link = |side| match side {
            Side::Application => main.clone(),
            Side::Conductor => conductor.clone(),
        };
        let batches = Batches::new(link, &session, &requests);
        Self {
            renewals,
            batches,
            main,
            conductor,
            #[cfg(feature = "deadpool")]
            pool: pool.map(|pool| Pooled::new(pool, origin)),
            lanes: Sides::new(|side| Lanes::new(origin.clone(), side)),
            requests,
        }
    }

    /// There is another master.
    pub(super) fn switched(&self) {
        #[cfg(feature = "deadpool")]
        self.pool.iter().for_each(Pooled::switched);
        self.main.follow();
        self.conductor.follow();
        self.lanes.both().into_iter().for_each(Lanes::follow);
        self.renewals.follow();
    }

    /// Over which a side sends.
    fn link(&self, side: Side) -> &Arc<Link> {
        match side {
            Side::Application => &self.main,
            Side::Conductor => &self.conductor,
        }
    }

    /// Over which whoever polls this sends.
    pub(super) fn here(&self) -> &Arc<Link> {
        self.link(Side::here())
    }

    /// Over which whoever polls this sends at once: it is there, and leads to this server only.
    pub(super) fn at_hand(&self) -> Option<(&Arc<Link>, Numbered)> {
        #[cfg(feature = "deadpool")]
        if self.pool().is_some() {
            return None;
        }
        let link = self.here();
        Some((link, link.at_hand()?))
    }

    /// Where claims on free keys ask together, if whoever polls this has that.
    pub(super) fn batches(&self) -> Option<&Batches> {
        #[cfg(feature = "deadpool")]
        if self.pool().is_some() {
            return None;
        }
        Some(&self.batches)
    }

    /// Whether what is pushed now would be heard; if not, it is seen to.
    pub(super) fn is_heard(&self) -> bool {
        // Over the connection that listens, nothing is sent before it does.
        self.is_over_main() || self.main.is_there()
    }

    /// Whether whoever polls this sends over the connection that listens.
    fn is_over_main(&self) -> bool {
        #[cfg(feature = "deadpool")]
        if self.pool.is_some() {
            return false;
        }
        Side::here() == Side::Application
    }

    /// The application's pool. Its connections are served by the application's runtimes, so the
    /// conductor has none.
    #[cfg(feature = "deadpool")]
    fn pool(&self) -> Option<&Pooled> {
        self.pool.as_ref().filter(|_| Side::here() == Side::Application)
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        if self.pool().is_some() {
            match self.send_pooled(Request { command, replicas: None }).await {
                Err(misled) if misled.is_elsewhere => {}
                answer => return answer.map_err(|misled| misled.unserved),
            }
        }
        self.send_main(command).await
    }

    pub(super) async fn send_and_wait(
        &self,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        if self.pool().is_some() {
            match self.send_pooled(Request { command, replicas: Some(replicas) }).await {
                Err(misled) if misled.is_elsewhere => {}
                answer => return answer.map_err(|misled| misled.unserved),
            }
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lanes.here().call_and_wait(command, replicas).await
    }

    /// Sends through the application's pool. Elsewhere leads one that is not there, too.
    #[cfg(feature = "deadpool")]
    pub(super) async fn send_pooled(&self, request: Request<'_>) -> Result<Value, Misled> {
        let Some(pool) = &self.pool else { return Err(Misled::nowhere()) };
        self.requests.fetch_add(1, Ordering::Relaxed);
        // On the heap: few have a pool, and all would carry its place.
        Box::pin(pool.send(request, &self.main)).await
    }

    /// Sends over a connection of our own.
    pub(super) async fn send_main(&self, command: &Cmd) -> Result<Value, Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.here().call(command, request::REQUEST_WITHIN).await
    }

    /// Sends over this connection only, if one is given; also that which it was sent over.
    pub(super) async fn send_over(
        &self,
        command: &Cmd,
        only: Option<Over>,
    ) -> Result<(Value, Over), Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = Request { command, replicas: None };
        let side = only.map_or_else(Side::here, |only| only.side);
        let number = only.map(|only| only.number);
        let sending = self.link(side).exchange_over(request, number, request::REQUEST_WITHIN);
        let (answer, number) = sending.await?;
        Ok((answer, Over { side, number }))
    }
}
