//! One server at a time: its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, Value};

use super::inbox::Inboxes;
use super::lanes::Lanes;
use super::link::{self, Link, Request, Unserved};
use super::origin::Origin;
#[cfg(feature = "deadpool")]
use super::pool::{Misled, RedisPool};
#[cfg(feature = "deadpool")]
use super::pooled::Pooled;
use super::renewals::{Renewals, Shape};
use crate::options::Replicas;

/// See the module.
#[derive(Debug)]
pub(super) struct One {
    pub(super) renewals: Renewals,
    /// Commands and pushes.
    pub(super) main: Arc<Link>,
    #[cfg(feature = "deadpool")]
    pub(super) pool: Option<Pooled>,
    /// Attempts that wait for replicas.
    lanes: Lanes,
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
        let plain = Link::plain(origin.clone());
        let renewals = Renewals::new(plain, session, requests.clone(), Shape::Whole);
        let main = Link::listening(origin.clone(), channel, inboxes);
        Self {
            renewals,
            main,
            #[cfg(feature = "deadpool")]
            pool: pool.map(|pool| Pooled::new(pool, origin)),
            lanes: Lanes::new(origin.clone()),
            requests,
        }
    }

    /// There is another master.
    pub(super) fn switched(&self) {
        #[cfg(feature = "deadpool")]
        self.pool.iter().for_each(Pooled::switched);
        self.main.follow();
        self.lanes.follow();
        self.renewals.follow();
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        match self.send_pooled(Request { command, replicas: None }).await {
            Err(misled) if misled.is_elsewhere => {}
            answer => return answer.map_err(|misled| misled.unserved),
        }
        self.send_main(command).await
    }

    pub(super) async fn send_and_wait(
        &self,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        #[cfg(feature = "deadpool")]
        match self.send_pooled(Request { command, replicas: Some(replicas) }).await {
            Err(misled) if misled.is_elsewhere => {}
            answer => return answer.map_err(|misled| misled.unserved),
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lanes.call_and_wait(command, replicas).await
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

    /// Sends over the connection of this number only, if one is given; also the number of that
    /// which it was sent over.
    pub(super) async fn send_over(
        &self,
        command: &Cmd,
        only: Option<u64>,
    ) -> Result<(Value, u64), Unserved> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = Request { command, replicas: None };
        self.main.exchange_over(request, only, link::REQUEST_WITHIN).await
    }
}
