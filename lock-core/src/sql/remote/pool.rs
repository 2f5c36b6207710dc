//! A few connections of the store's own.
//!
//! They live on the home runtime. A connection whose statement was given up is closed, so that no
//! answer is read by another; one that is being made goes on to be made, and is there for the next.
//!
//! A firewall or a balancer in between forgets a connection on which nothing is said, and drops in
//! silence what is sent over it later. So one that is idle is asked now and then, and closed where
//! it does not answer: no request finds that out. One is kept for renewals, as rows that others
//! keep locked may keep all the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::server::Server;
use super::unserved::Unserved;
use crate::backend::Fault;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};
use crate::sql::fault::DatabaseError;
use crate::sql::lane::Lane;

/// How long connecting and migrating may take.
pub(in crate::sql) const CONNECT: Duration = Duration::from_secs(5);

/// Between two tries to have a connection of a server that takes no more, while there are others of
/// ours to wait for.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// After so long without an answer an idle connection is due to be asked for one, at the next look,
/// and they look as often. The least that firewalls and balancers are set to forget after is a
/// minute.
pub(in crate::sql) const IDLE_MAX: Duration = Duration::from_secs(20);

/// A connection that does not answer so soon is closed: its place is wanted.
const PING_WITHIN: Duration = Duration::from_secs(1);

/// The connections of a store.
#[derive(Debug)]
pub(super) struct Pool<S: Server> {
    pub(super) server: S,
    home: Arc<Home>,
    free: Arc<Semaphore>,
    /// The part of these places that is not kept for renewals.
    others: Arc<Semaphore>,
    /// The one that answered last is at the end.
    idle: Mutex<Vec<Used<S::Session>>>,
    /// There was a connection. Whatever keeps another one from being made may pass: a password that
    /// is replaced, descriptors that are used up.
    was_open: AtomicBool,
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
    _place: Room,
}

/// Room for a connection, in its lane.
#[derive(Debug)]
struct Room {
    _of_others: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl<S: Server> Pool<S> {
    pub(super) fn new(server: S, home: Arc<Home>) -> Self {
        let most = usize::try_from(server.connections()).unwrap_or(1);
        let free = Arc::new(Semaphore::new(most));
        let others = Arc::new(Semaphore::new(most.saturating_sub(1).max(1)));
        let was_open = AtomicBool::new(false);
        Self { server, home, free, others, idle: Mutex::default(), was_open }
    }

    /// A connection, by then at the latest.
    pub(super) async fn lend(self: &Arc<Self>, lane: Lane, by: Instant) -> Result<Lent<S>, Fault> {
        self.lent(lane, by).await.map_err(|error| {
            let fault = Fault::from(error);
            if self.was_open.load(Ordering::Relaxed) { fault.passing() } else { fault }
        })
    }

    async fn lent(self: &Arc<Self>, lane: Lane, by: Instant) -> Result<Lent<S>, DatabaseError> {
        loop {
            let place = self.home.timeout_at(by, self.place(lane));
            let Ok(Some(place)) = place.await else {
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

    async fn place(&self, lane: Lane) -> Option<Room> {
        // In this order, so that nobody has a place among all while he waits for another.
        let of_others = match lane {
            Lane::Renewals => None,
            Lane::Others => Some(self.others.clone().acquire_owned().await.ok()?),
        };
        let of_all = self.free.clone().acquire_owned().await.ok()?;
        Some(Room { _of_others: of_others, _of_all: of_all })
    }

    /// Begins to ask those that are idle for longer than this, for as long as somebody has what
    /// this gives.
    pub(super) fn keep(self: &Arc<Self>, idle_max: Duration) -> Kept {
        Kept(self.home.spawn(keep(self.clone(), idle_max)).abort_handle())
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

/// Idle connections are asked, until this is dropped.
#[derive(Debug)]
pub(super) struct Kept(AbortHandle);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep<S: Server>(pool: Arc<Pool<S>>, idle_max: Duration) {
    loop {
        pool.home.sleep_until(clock::now().plus(idle_max)).await;
        // One after the other, so that requests have all places but one.
        loop {
            let now = clock::now();
            // As one of the others, so that the place for renewals stays theirs.
            let Ok(of_others) = pool.others.clone().try_acquire_owned() else { break };
            let Ok(of_all) = pool.free.clone().try_acquire_owned() else { break };
            let longest = {
                let mut idle = lock(&pool.idle);
                // The one that answered last is at the end.
                let is_due = |used: &Used<_>| {
                    used.answered.is_none_or(|at| now.saturating_duration_since(at) >= idle_max)
                };
                let is_due = idle.first().is_some_and(is_due);
                is_due.then(|| idle.remove(0))
            };
            let Some(mut used) = longest else { break };
            let place = Room { _of_others: Some(of_others), _of_all: of_all };
            let mut lent = Lent { pool: pool.clone(), session: None, _place: place };
            let asked = pool.server.ping(&mut used.session);
            if let Ok(Ok(())) = pool.home.timeout_at(now.plus(PING_WITHIN), asked).await {
                used.answered = Some(clock::now());
                lent.put_back(used);
            }
        }
    }
}

async fn connect<S: Server>(pool: Arc<Pool<S>>, place: Room) -> Result<Lent<S>, Unserved> {
    let by = clock::now().plus(CONNECT);
    let Ok(opened) = pool.home.timeout_at(by, pool.server.open()).await else {
        return Err(Unserved::Gone(pool.late()));
    };
    let session = Some(Used { session: opened?, answered: None });
    pool.was_open.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    /// A server that takes all, and may have forgotten what it took.
    #[derive(Debug, Default)]
    struct Fake {
        opened: AtomicU32,
        pings: AtomicU32,
        is_silent: AtomicBool,
        lets_nobody_in: AtomicBool,
    }

    impl Server for Fake {
        /// The number of the connection.
        type Session = u32;

        fn place(&self) -> String {
            "a fake".to_owned()
        }

        fn connections(&self) -> u32 {
            3
        }

        async fn open(&self) -> Result<u32, Unserved> {
            if self.lets_nobody_in.load(Ordering::SeqCst) {
                let (server, what) = (self.place(), "a password is wrong".to_owned());
                return Err(Unserved::Refused(DatabaseError::Login { server, what }));
            }
            Ok(self.opened.fetch_add(1, Ordering::SeqCst))
        }

        async fn ping(&self, _session: &mut u32) -> Result<(), sqlx::Error> {
            self.pings.fetch_add(1, Ordering::SeqCst);
            match self.is_silent.load(Ordering::SeqCst) {
                true => Err(sqlx::Error::WorkerCrashed),
                false => Ok(()),
            }
        }

        fn unserved(&self, error: sqlx::Error) -> Unserved {
            Unserved::Gone(DatabaseError::Other { what: error.to_string() })
        }
    }

    fn pool() -> Arc<Pool<Fake>> {
        Arc::new(Pool::new(Fake::default(), Home::shared().expect("a thread")))
    }

    fn soon() -> Instant {
        clock::now().plus(Duration::from_secs(9))
    }

    /// Uses a connection, and says which one it was.
    async fn used(pool: &Arc<Pool<Fake>>) -> u32 {
        let mut lent = pool.lend(Lane::Others, soon()).await.expect("a place");
        let mut used = lent.take().expect("a connection");
        used.answered = Some(clock::now());
        let session = used.session;
        lent.put_back(used);
        session
    }

    #[tokio::test]
    async fn renewals_have_a_connection_that_nothing_else_takes() {
        let pool = pool();
        let mut lent = Vec::new();
        for _ in 0..2 {
            lent.push(pool.lend(Lane::Others, soon()).await.expect("a place"));
        }
        let late = clock::now().plus(Duration::from_millis(20));
        assert!(pool.lend(Lane::Others, late).await.is_err());
        let renewal = pool.lend(Lane::Renewals, soon()).await.expect("the third one");
        assert!(pool.lend(Lane::Renewals, late).await.is_err());
        lent.clear();
        assert!(pool.lend(Lane::Others, soon()).await.is_ok());
        drop(renewal);
    }

    #[tokio::test]
    async fn an_idle_connection_is_asked_and_stays_while_it_answers() {
        let pool = pool();
        assert_eq!(used(&pool).await, 0);
        // Nobody has the pool but this test, once the task is gone.
        let ends = async |kept| {
            drop(kept);
            while Arc::strong_count(&pool) > 1 {
                tokio::task::yield_now().await;
            }
        };
        let kept = pool.keep(Duration::from_millis(5));
        while pool.server.pings.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        // One that is being asked is not lent.
        ends(kept).await;
        assert_eq!(used(&pool).await, 0);
        pool.server.is_silent.store(true, Ordering::SeqCst);
        let kept = pool.keep(Duration::from_millis(5));
        while !lock(&pool.idle).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(used(&pool).await, 1, "one that is forgotten meets no request");
        ends(kept).await;
    }

    /// A withdrawal that is refused is not tried again, and would leave the key held.
    #[tokio::test]
    async fn what_keeps_out_a_login_that_was_let_in_before_may_pass() {
        let pool = pool();
        let refusal = async || pool.lend(Lane::Others, soon()).await.expect_err("nobody gets in");
        pool.server.lets_nobody_in.store(true, Ordering::SeqCst);
        assert!(!refusal().await.is_transient());
        pool.server.lets_nobody_in.store(false, Ordering::SeqCst);
        let lent = pool.lend(Lane::Others, soon()).await.expect("a connection");
        pool.server.lets_nobody_in.store(true, Ordering::SeqCst);
        let fault = refusal().await;
        assert!(fault.is_transient() && fault.to_string().contains("password"), "{fault}");
        drop(lent);
    }

    #[tokio::test]
    async fn a_request_does_not_wait_for_an_idle_one_that_is_asked() {
        let pool = pool();
        let mut lent = pool.lend(Lane::Renewals, soon()).await.expect("a place");
        let asked = lent.take();
        let waits = async {
            let _asked = asked;
            pending::<()>().await;
        };
        let task = pool.home.spawn(waits);
        assert_eq!(used(&pool).await, 1);
        task.abort();
    }
}
