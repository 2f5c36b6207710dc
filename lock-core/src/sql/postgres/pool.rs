//! A few connections of the store's own.
//!
//! They live on the home runtime. A connection whose statement was given up is closed, so that no
//! answer is read by another; one that is being made goes on to be made, and is there for the next.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config::{CONNECT, PostgresConfig};
use super::session::{Session, Way};
use super::trouble::Unserved;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};
use crate::sql::fault::DatabaseError;

/// Between two tries to have a connection of a server that takes no more, while there are others of
/// ours to wait for.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// The connections of a store.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) config: PostgresConfig,
    home: Arc<Home>,
    free: Arc<Semaphore>,
    /// The one that answered last is at the end.
    idle: Mutex<Vec<Session>>,
    way: OnceLock<Way>,
}

/// A connection that is lent, until it is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    pool: Arc<Pool>,
    /// `None` while it is in use, and for good once it is of no use any more.
    session: Option<Session>,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(config: PostgresConfig, home: Arc<Home>) -> Self {
        let most = usize::try_from(config.connections).unwrap_or(1);
        let free = Arc::new(Semaphore::new(most));
        Self { config, home, free, idle: Mutex::default(), way: OnceLock::new() }
    }

    /// How the server is reached, once it was.
    pub(super) fn way(&self) -> Option<Way> {
        self.way.get().copied()
    }

    /// A connection, by then at the latest.
    pub(super) async fn lend(self: &Arc<Self>, by: Instant) -> Result<Lent, DatabaseError> {
        loop {
            let place = self.home.timeout_at(by, self.free.clone().acquire_owned());
            let Ok(Ok(place)) = place.await else {
                let what = format!(
                    "all {} connections are in use, or being made",
                    self.config.connections
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
        lock(&self.idle).retain(|session| session.answered.is_some_and(|at| at >= since));
    }

    fn has_others(&self) -> bool {
        let most = usize::try_from(self.config.connections).unwrap_or(1);
        self.free.available_permits() < most || !lock(&self.idle).is_empty()
    }

    fn late(&self) -> DatabaseError {
        DatabaseError::Unreachable {
            server: self.config.server(),
            what: "it did not answer in time".to_owned(),
        }
    }
}

async fn connect(pool: Arc<Pool>, place: OwnedSemaphorePermit) -> Result<Lent, Unserved> {
    let by = clock::now().plus(CONNECT);
    let opening = Session::open(&pool.config, pool.way());
    let Ok(opened) = pool.home.timeout_at(by, opening).await else {
        return Err(Unserved::Gone(pool.late()));
    };
    let session = opened?;
    let _is_known = pool.way.set(session.way());
    Ok(Lent { pool, session: Some(session), _place: place })
}

impl Lent {
    /// Takes it out. One that is not put back is closed.
    pub(super) fn take(&mut self) -> Option<Session> {
        self.session.take()
    }

    pub(super) fn put_back(&mut self, session: Session) {
        self.session = Some(session);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            lock(&self.pool.idle).push(session);
        }
    }
}
