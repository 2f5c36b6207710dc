//! Connections for attempts that wait for replicas.
//!
//! The server serves nothing else on a connection while a `WAIT` on it goes on, and `WAIT` counts
//! for what was written on its own connection only. So each such attempt has a connection to
//! itself, which is kept for the next one, and other traffic and pushes go on beside it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tokio::sync::Semaphore;

use super::connection::Connection;
use super::request::{Failure, REQUEST_WITHIN, Unserved};
use super::route::Route;
use crate::backend::Replicas;
use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock, timeout};

/// Connections at most. Each serves hundreds of attempts a second while the replicas are well, and
/// one to a thousand when they are not.
const LANES_MAX: usize = 32;

/// A lane that was not used for this long is dropped at the next use of another. The network may
/// have forgotten it, and then it would cost an acquire its time.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A bounded pool of connections, each for one attempt that waits for replicas at a time.
#[derive(Debug)]
pub(in crate::redis) struct Lanes {
    route: Arc<dyn Route>,
    free: Semaphore,
    /// The idle connections, with the time of their last use, the latest at the end.
    idle: Mutex<Vec<(Instant, Arc<Connection>)>>,
}

impl Lanes {
    pub(in crate::redis) fn new(route: Arc<dyn Route>) -> Self {
        Self { route, free: Semaphore::new(LANES_MAX), idle: Mutex::default() }
    }

    /// Sends an attempt and waits for the replication of a grant; both answers in an array.
    pub(in crate::redis) async fn call_and_wait(
        &self,
        command: &Cmd,
        replicas: Replicas,
    ) -> Result<Value, Unserved> {
        let until = clock::now().plus(REQUEST_WITHIN);
        let lane = timeout::by(until, self.free.acquire());
        // Never closed.
        let Ok(Ok(_lane)) = lane.await else { return Err(busy()) };
        let left = until.saturating_duration_since(clock::now());
        let connection = self.take();
        let answer = connection.call_and_wait(command, replicas, left).await;
        self.give(connection);
        answer
    }

    fn take(&self) -> Arc<Connection> {
        let now = clock::now();
        let mut idle = self.idle();
        idle.retain(|(used, _)| now.saturating_duration_since(*used) < IDLE_MAX);
        let kept = idle.pop();
        kept.map_or_else(|| Connection::plain(self.route.clone()), |(_, connection)| connection)
    }

    fn give(&self, connection: Arc<Connection>) {
        self.idle().push((clock::now(), connection));
    }

    /// There is another master: what is kept leads to the last one.
    pub(in crate::redis) fn follow(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Arc<Connection>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> Unserved {
    let what = format!("{LANES_MAX} acquires wait for replicas already");
    Unserved { fault: Failure::Other(Fault::new(FaultKind::Transient, what)), sent: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_was_not_used_for_long_is_not_used_again() {
        let lanes = Lanes::new(super::super::route::to_port(1));
        let (old, young) = (lanes.take(), lanes.take());
        lanes.give(old.clone());
        tokio::time::advance(IDLE_MAX / 2).await;
        lanes.give(young.clone());
        tokio::time::advance(IDLE_MAX / 2).await;
        assert!(Arc::ptr_eq(&lanes.take(), &young));
        assert!(!Arc::ptr_eq(&lanes.take(), &old));
        assert_eq!(Arc::strong_count(&old), 1, "it is closed");
    }
}
