//! Connections for attempts that wait for replicas.
//!
//! The server serves nothing else on a connection while a `WAIT` on it goes on, and `WAIT` counts
//! for what was written on its own connection only. So each such attempt has a connection to
//! itself, which is kept for the next one, and other traffic and pushes go on beside it.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value};
use tokio::sync::Semaphore;

use super::link::{Failure, Link, REQUEST_WITHIN, Unserved};
use super::origin::Origin;
use crate::backend::{Fault, FaultKind};
use crate::engine::clock;
use crate::options::Replicas;

/// Connections at most. Each serves hundreds of attempts a second while the replicas are well, and
/// one to a thousand when they are not.
const LANES_MAX: usize = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Lanes {
    origin: Origin,
    free: Semaphore,
    idle: Mutex<Vec<Arc<Link>>>,
}

impl Lanes {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, free: Semaphore::new(LANES_MAX), idle: Mutex::default() }
    }

    /// Sends an attempt and waits for the replication of a grant; both answers in an array.
    pub(super) async fn call_and_wait(
        &self,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        let until = clock::now() + REQUEST_WITHIN;
        let lane = tokio::time::timeout_at(until.into(), self.free.acquire());
        // Never closed.
        let Ok(Ok(_lane)) = lane.await else { return Err(busy()) };
        let left = until.saturating_duration_since(clock::now());
        let link = self.idle().pop().unwrap_or_else(|| Link::plain(self.origin.clone()));
        let answer = link.call_and_wait(command, replicas, left).await;
        self.idle().push(link);
        answer
    }

    /// There is another master: what is kept leads to the last one.
    pub(super) fn follow(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Link>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> Unserved {
    let what = format!("{LANES_MAX} acquires wait for replicas already");
    Unserved { fault: Failure::Other(Fault::new(FaultKind::Transient, what)), sent: None }
}
