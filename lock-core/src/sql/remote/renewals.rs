//! Renewals go together: one that comes alone is sent at once, and those that come shortly after it
//! wait for each other, so that ten thousand holds cost few statements.
//!
//! A claim that a database has not renewed with others is asked for alone, which says why. Batches
//! do not wait for one another: each ends by the time of those in it, and a claim of a short lease
//! by its own.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::backend::Fault;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock, lock};
use crate::sql::dialect::{Ask, Taken};
use crate::sql::fault::DatabaseError;
use crate::sql::lane::Lane;

/// Batches are so far apart: short beside a sixth of the shortest lease, which is what one may
/// take.
const APART: Duration = Duration::from_millis(10);

/// The most claims of a batch, so that none holds the server up.
pub(in crate::sql) const BATCH_MAX: usize = 500;

/// A database that renews many claims in few statements.
pub(in crate::sql) trait Together: Debug + Send + Sync + 'static {
    /// Renews these claims as [`Dialect::renew`](crate::sql::dialect::Dialect::renew) renews one.
    /// They are in the order of their keys, in which rows are to be locked. A row that somebody
    /// else keeps is to be left out, as it must not hold up the others.
    ///
    /// Answers what each claim was given that was renewed. A claim is known by its id: two of one
    /// key may be in a batch, of which one holds it no more.
    fn renew_all(
        &self,
        asks: &[Ask],
        by: Instant,
    ) -> impl Future<Output = Result<HashMap<String, Taken>, Fault>> + Send;

    /// The address of the server, for errors.
    fn place(&self) -> String;
}

/// The extension that a claim was given; `None` where it has to ask alone.
type Answer = Result<Option<Taken>, Fault>;

/// The renewals of a store.
#[derive(Debug)]
pub(in crate::sql) struct Renewals<T> {
    together: T,
    home: Arc<Home>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// When the last one was sent.
    last: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    by: Instant,
    answer: oneshot::Sender<Answer>,
}

impl<T: Together> Renewals<T> {
    pub(in crate::sql) fn new(together: T, home: Arc<Home>) -> Arc<Self> {
        Arc::new(Self { together, home, queue: Mutex::default() })
    }

    /// Has a claim renewed with others; `None` where it has to ask alone, as it is alone.
    pub(in crate::sql) async fn renew(self: &Arc<Self>, ask: &Ask, by: Instant) -> Answer {
        let answered = {
            let (now, mut queue) = (clock::now(), lock(&self.queue));
            let goes_at = queue.last.map(|last| last.plus(APART)).filter(|at| *at > now);
            let Some(goes_at) = goes_at else {
                queue.last = Some(now);
                return Ok(None);
            };
            let (answer, answered) = oneshot::channel();
            queue.waiting.push(Waiting { ask: ask.clone(), by, answer });
            match queue.waiting.len() {
                1 => drop(self.home.spawn(send(self.clone(), goes_at))),
                BATCH_MAX => self.send_now(&mut queue),
                _ => {}
            }
            answered
        };
        match self.home.timeout_at(by, answered).await {
            Ok(Ok(answer)) => answer,
            // It was not sent, or is not answered: whoever waits tries again in time.
            _ => {
                let server = self.together.place();
                let what = "it did not answer in time".to_owned();
                Err(DatabaseError::Unreachable { server, what }.into())
            }
        }
    }

    /// Sends all that wait, in a task of their own.
    fn send_now(self: &Arc<Self>, queue: &mut Queue) {
        let batch = std::mem::take(&mut queue.waiting);
        if !batch.is_empty() {
            queue.last = Some(clock::now());
            let this = self.clone();
            drop(self.home.spawn(async move { this.serve(batch).await }));
        }
    }

    async fn serve(&self, mut batch: Vec<Waiting>) {
        batch.sort_unstable_by(|one, other| one.ask.key.as_str().cmp(other.ask.key.as_str()));
        let Some(by) = batch.iter().map(|waiting| waiting.by).max() else { return };
        let asks: Vec<_> = batch.iter().map(|waiting| waiting.ask.clone()).collect();
        let answer = Lane::Renewals.scope(self.together.renew_all(&asks, by)).await;
        for Waiting { ask, answer: waits, .. } in batch {
            let answer = match &answer {
                Ok(renewed) => Ok(renewed.get(&ask.claim.to_string()).copied()),
                Err(fault) => Err(fault.clone()),
            };
            // The caller may be gone.
            drop(waits.send(answer));
        }
    }
}

async fn send<T: Together>(renewals: Arc<Renewals<T>>, goes_at: Instant) {
    renewals.home.sleep_until(goes_at).await;
    let mut queue = lock(&renewals.queue);
    renewals.send_now(&mut queue);
}
