//! A few connections of the store's own.
//!
//! They live on the home runtime. A connection whose statement was given up is closed, so that no
//! answer is read by another; one that is being made goes on to be made, and is there for the next.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::link::CONNECT;
use super::server::Server;
use super::unserved::Unserved;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};
use crate::sql::fault::DatabaseError;

/// Between two tries to have a connection of a server that takes no more, while there are others of
/// ours to wait for.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// The connections of a store.
#[derive(Debug)]
pub(super) struct Pool<S: Server> {
    pub(super) server: S,
    home: Arc<Home>,
    free: Arc<Semaphore>,
    /// The one that answered last is at the end.
    idle: Mutex<Vec<Used<S::Session>>>,
}

/// A connection, and when it answered last; `None` of a new one.
#[derive(Debug)]
pub(super) struct Used<C> {
    pub(super) session: C,
    pub(super) answered: Option<Instant>,
}

/// A connection that is lent, until it is dropped.
#[derive(Debug)]
pub(super) struct Lent<S: Server> {
    pool: Arc<Pool<S>>,
    /// `None` while it is in use, and for good once it is of no use any more.
    session: Option<Used<S::Session>>,
    _place: OwnedSemaphorePermit,
}

impl<S: Server> Pool<S> {
    pub(super) fn new(server: S, home: Arc<Home>) -> Self {
        let most = usize::try_from(server.connections()).unwrap_or(1);
        let free = Arc::new(Semaphore::new(most));
        Self { server, home, free, idle: Mutex::default() }
    }

    /// A connection, by then at the latest.
    pub(super) async fn lend(self: &Arc<Self>, by: Instant) -> Result<Lent<S>, DatabaseError> {
        loop {
            let place = self.home.timeout_at(by, self.free.clone().acquire_owned());
            let Ok(Ok(place)) = place.await else {
                let what = format!(
                    "all {} connections are in use, or being made",
                    self.server.connections()
                );
                return Err(DatabaseError::Other { what });
            };
            if let Some(session) = lock(&self.idle).pop() {
                return Ok(Lent { pool: self.clone(), session: Some(session), _place: place });
            }
            let task = self.home.spawn(connect(self.clone(), place));
            let error = match self.home.timeout_at(by, task).await {
                Ok(Ok(Ok(lent))) => return Ok(lent),
                Ok(Ok(Err(trouble))) => trouble.error(),
                _ => self.late(),
            };
            let next = clock::now().plus(FULL_PAUSE);
            let is_full = matches!(error, DatabaseError::Connections { .. });
            if !(is_full && self.has_others() && next < by) {
                return Err(error);
            }
            self.home.sleep_until(next).await;
        }
    }

    /// Closes those that did not answer since then: what ended one has often ended them all.
    pub(super) fn close_older_than(&self, since: Instant) {
        lock(&self.idle).retain(|used| used.answered.is_some_and(|at| at >= since));
    }

    fn has_others(&self) -> bool {
        let most = usize::try_from(self.server.connections()).unwrap_or(1);
        self.free.available_permits() < most || !lock(&self.idle).is_empty()
    }

    fn late(&self) -> DatabaseError {
        DatabaseError::Unreachable {
            server: self.server.place(),
            what: "it did not answer in time".to_owned(),
        }
    }
}

async fn connect<S: Server>(
    pool: Arc<Pool<S>>,
    place: OwnedSemaphorePermit,
) -> Result<Lent<S>, Unserved> {
    let by = clock::now().plus(CONNECT);
    let Ok(opened) = pool.home.timeout_at(by, pool.server.open()).await else {
        return Err(Unserved::Gone(pool.late()));
    };
    let session = Some(Used { session: opened?, answered: None });
    Ok(Lent { pool, session, _place: place })
}

impl<S: Server> Lent<S> {
    /// Takes it out. One that is not put back is closed.
    pub(super) fn take(&mut self) -> Option<Used<S::Session>> {
        self.session.take()
    }

    pub(super) fn put_back(&mut self, session: Used<S::Session>) {
        self.session = Some(session);
    }
}

impl<S: Server> Drop for Lent<S> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            lock(&self.pool.idle).push(session);
        }
    }
}
