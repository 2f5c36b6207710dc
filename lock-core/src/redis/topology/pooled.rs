//! The check that an application's pool leads to the master.
//!
//! The pool of a Sentinel set may keep a connection to a server that was the master once and does
//! not know that it is no more. What is granted there must not count. So where the URL names
//! sentinels, each request through the pool asks in the same write who answers. The answer must
//! name the server to which the connection of our own leads, as that follows the sentinels. Where
//! it names another, the request is made over our own: the pool may be slower to follow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;

use super::origin::Origin;
use super::sentinel::Sentinels;
use crate::backend::{Fault, FaultKind};
use crate::redis::wire::connection::Connection;
use crate::redis::wire::fault;
use crate::redis::wire::pool::RedisPool;
use crate::redis::wire::request::{
    Failure, REQUEST_WITHIN, Request, Unserved, WrongServer, run_id, who,
};

/// An application's pool, and which server has to answer through it.
#[derive(Debug)]
pub(in crate::redis) struct Pooled {
    pool: RedisPool,
    sentinels: Option<Arc<Sentinels>>,
    /// It was seen to lead to the server and database of the URL. Nothing of a lock goes through it
    /// before.
    fits: AtomicBool,
    /// The master of a term, by a name that a server has from its start to its end.
    master: Mutex<Option<(u64, String)>>,
}

impl Pooled {
    pub(in crate::redis) fn new(pool: RedisPool, origin: &Origin) -> Self {
        let (sentinels, fits) = (origin.sentinels().cloned(), AtomicBool::new(false));
        Self { pool, sentinels, fits, master: Mutex::default() }
    }

    /// Whether it was seen to lead where the URL does.
    pub(in crate::redis) fn fits(&self) -> bool {
        self.fits.load(Ordering::Acquire)
    }

    pub(in crate::redis) fn does_fit(&self) {
        self.fits.store(true, Ordering::Release);
    }

    pub(in crate::redis) fn is_of_cluster(&self) -> bool {
        self.pool.is_of_cluster()
    }

    fn master(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request through the pool; `main` is the connection of our own.
    pub(in crate::redis) async fn send(
        &self,
        request: Request<'_>,
        main: &Arc<Connection>,
    ) -> Result<Value, WrongServer> {
        let Some(sentinels) = &self.sentinels else { return Ok(self.pool.send(request).await?) };
        // Before it is asked who the master is: one that comes later is not yet known by name.
        let term = sentinels.number();
        let master = self.master_in(term, main).await.map_err(unsent)?;
        let sent = self.pool.send_to(request, &master, sentinels.superseded(term)).await;
        if sent.as_ref().is_err_and(|wrong| wrong.is_elsewhere) {
            // Perhaps the master has restarted.
            *self.master() = None;
        }
        sent
    }

    /// There is another master: what the pool keeps leads to the last one.
    pub(in crate::redis) fn switched(&self) {
        self.pool.forget_idle();
    }

    async fn master_in(&self, term: u64, main: &Arc<Connection>) -> Result<String, Fault> {
        if let Some((of, master)) = &*self.master()
            && *of == term
        {
            return Ok(master.clone());
        }
        let answer = main.call(&who(), REQUEST_WITHIN).await;
        let answer = answer.map_err(|unserved| of_who(unserved.fault.into_fault()))?;
        let master = run_id(answer).ok_or_else(|| fault::strange("who it is"))?;
        *self.master() = Some((term, master.clone()));
        Ok(master)
    }
}

fn of_who(fault: Fault) -> Fault {
    if fault.kind() != FaultKind::Refused {
        return fault;
    }
    let what = "a pool beside sentinels needs the right +info, to tell the master from others";
    Fault::new(FaultKind::Refused, what).with_source(fault)
}

fn unsent(fault: Fault) -> Unserved {
    Unserved { fault: Failure::Other(fault.unsent()), sent: None }
}
