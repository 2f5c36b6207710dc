//! Renewals go together: one that comes alone is sent at once, and those that come shortly after it
//! wait for each other, so that ten thousand holds cost few statements.
//!
//! A claim that a database has not renewed with others is asked for alone, which says why. Batches
//! do not wait for one another: each ends by the time of those in it, and a claim of a short lease
//! by its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::backend::batch::{Batches, Queue, Underway};
use crate::backend::io::Home;
use crate::backend::{ClaimId, Fault};
use crate::ground::{Plus as _, clock, lock, timeout};
use crate::sql::dialect::{Ask, Taken};
use crate::sql::fault::DatabaseError;
use crate::sql::lane::Lane;

/// Batches that are not full are so far apart: short beside a sixth of the shortest lease, which is
/// what one may take.
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
    ) -> impl Future<Output = Result<Renewed, Fault>> + Send;

    /// The address of the server, for errors.
    fn place(&self) -> String;
}

/// The extensions that claims were given.
pub(in crate::sql) type Renewed = HashMap<ClaimId, Taken>;

/// The extension that a claim was given; `None` where it has to ask alone.
type Answer = Result<Option<Taken>, Fault>;

/// A claim that is due, and until when it is to be answered.
type Due = (Ask, Instant);

/// The renewals of a store.
#[derive(Debug)]
pub(in crate::sql) struct Renewals<T> {
    batches: Batches<Due, Answer, Infallible>,
    post: Arc<Post<T>>,
}

/// The means to send requests.
#[derive(Debug)]
struct Post<T> {
    together: T,
    home: Arc<Home>,
    /// When the last was sent, alone or of many.
    last: Mutex<Option<Instant>>,
}

impl<T: Together> Renewals<T> {
    pub(in crate::sql) fn new(together: T, home: Arc<Home>) -> Self {
        // The task is gone by a panic: then each asks alone.
        let batches = Batches::new(home.clone(), BATCH_MAX, |_| Ok(None));
        Self { batches, post: Arc::new(Post { together, home, last: Mutex::default() }) }
    }

    /// Has a claim renewed with others; `None` where it has to ask alone, as it is alone, or was not
    /// renewed with them. Whoever asks polls it. What was sent goes on where this is dropped.
    pub(in crate::sql) async fn renew(&self, ask: &Ask, by: Instant) -> Answer {
        if self.post.is_alone(clock::now()) {
            return Ok(None);
        }
        let due = (ask.clone(), by);
        let answer = self.batches.add(due, |queue| serve(self.post.clone(), queue));
        timeout::by(by, answer).await.unwrap_or_else(|_| {
            // It was not sent, or is not answered: whoever waits tries again in time.
            let server = self.post.together.place();
            let what = "it did not answer in time".to_owned();
            Err(DatabaseError::Unreachable { server, what }.into())
        })
    }
}

async fn serve<T: Together>(post: Arc<Post<T>>, mut queue: Queue<Due, Answer, Infallible>) {
    // Bounded: each claim has at most one renewal under way.
    while let Some(batch) = queue.recv().await {
        if batch.size() < BATCH_MAX {
            let last = *lock(&post.last);
            post.home.sleep_until(last.map_or_else(clock::now, |last| last.plus(APART))).await;
        }
        let due = batch.seal(None);
        *lock(&post.last) = Some(clock::now());
        let sends = post.clone();
        drop(post.home.spawn(async move { sends.send(due, &batch).await }));
    }
}

impl<T: Together> Post<T> {
    /// Whether none was sent just now; the next are not alone then.
    fn is_alone(&self, now: Instant) -> bool {
        let mut last = lock(&self.last);
        let is_alone = last.is_none_or(|last| last.plus(APART) <= now);
        if is_alone {
            *last = Some(now);
        }
        is_alone
    }

    async fn send(&self, mut due: Vec<(usize, Due)>, batch: &Underway<Due, Answer, Infallible>) {
        due.sort_unstable_by(|(_, (one, _)), (_, (other, _))| {
            one.key.as_str().cmp(other.key.as_str())
        });
        let Some(by) = due.iter().map(|(_, (_, by))| *by).max() else { return };
        let (places, asks): (Vec<_>, Vec<_>) =
            due.into_iter().map(|(at, (ask, _))| (at, ask)).unzip();
        let answer = Lane::Renewals.scope(self.together.renew_all(&asks, by)).await;
        let of = |ask: &Ask| match &answer {
            Ok(renewed) => Ok(renewed.get(&ask.claim).copied()),
            Err(fault) => Err(fault.clone()),
        };
        batch.tell(places.into_iter().zip(asks.iter().map(of)));
    }
}
