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

/// How long a renewal waits for others, at least: short beside a sixth of the shortest lease, which
/// is what one may take.
const APART_MIN: Duration = Duration::from_millis(10);

/// And at most. From here on a longer wait spares few statements more.
const APART_MAX: Duration = Duration::from_millis(50);

/// How far apart batches are for the sake of a claim of this lease. It loses a half percent of it.
fn apart(lease: Duration) -> Duration {
    (lease / 200).clamp(APART_MIN, APART_MAX)
}

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
    /// When those who wait are sent, at the latest.
    goes_at: Option<Instant>,
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
            let goes_at = queue.last.map(|last| last.plus(apart(ask.lease)));
            let Some(goes_at) = goes_at.filter(|at| *at > now || queue.goes_at.is_some()) else {
                queue.last = Some(now);
                return Ok(None);
            };
            let (answer, answered) = oneshot::channel();
            queue.waiting.push(Waiting { ask: ask.clone(), by, answer });
            if queue.waiting.len() >= BATCH_MAX {
                self.send_now(&mut queue);
            } else if queue.goes_at.is_none_or(|at| goes_at < at) {
                queue.goes_at = Some(goes_at);
                drop(self.home.spawn(send(self.clone(), goes_at)));
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
        queue.goes_at = None;
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
    // Those were sent earlier, by a claim in more of a hurry or as there were enough of them.
    if queue.goes_at == Some(goes_at) {
        renewals.send_now(&mut queue);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::sync::mpsc;

    use super::*;
    use crate::backend::ClaimId;
    use crate::key::Key;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Tells how many went together, and renews none.
    #[derive(Debug)]
    struct Told(mpsc::UnboundedSender<usize>);

    impl Together for Told {
        async fn renew_all(
            &self,
            asks: &[Ask],
            _: Instant,
        ) -> Result<HashMap<String, Taken>, Fault> {
            self.0.send(asks.len()).expect("a test");
            Ok(HashMap::new())
        }

        fn place(&self) -> String {
            "a test".to_owned()
        }
    }

    fn renewals() -> (Arc<Renewals<Told>>, mpsc::UnboundedReceiver<usize>) {
        let (sizes, told) = mpsc::unbounded_channel();
        (Renewals::new(Told(sizes), Home::start("test").unwrap()), told)
    }

    async fn renew(renewals: &Arc<Renewals<Told>>, lease: Duration) {
        let (key, about) = (Key::new("k").unwrap(), "".into());
        let ask = Ask { key, claim: ClaimId::random(), lease, tokens_max: 1, about };
        let answer = renewals.renew(&ask, clock::now().plus(PATIENCE)).await;
        assert!(matches!(answer, Ok(None)), "{answer:?}");
    }

    #[test]
    fn claims_of_a_long_lease_gather_for_longer() {
        let waits = [100, 2_000, 6_000, 10_000, 600_000];
        let waits = waits.map(|ms| apart(Duration::from_millis(ms)).as_millis());
        assert_eq!(waits, [10, 10, 30, 50, 50]);
    }

    #[tokio::test]
    async fn one_that_comes_alone_is_not_kept() {
        let (renewals, mut told) = renewals();
        renew(&renewals, Duration::from_secs(30)).await;
        assert!(told.try_recv().is_err());
    }

    /// As if a batch had been sent at this time.
    fn sent_at(renewals: &Renewals<Told>, at: Instant) {
        lock(&renewals.queue).last = Some(at);
    }

    #[tokio::test]
    async fn one_in_a_hurry_takes_those_along_that_wait() {
        let (renewals, mut told) = renewals();
        sent_at(&renewals, clock::now().plus(PATIENCE));
        let patient = join_all((0..3).map(|_| renew(&renewals, Duration::from_secs(30))));
        let hurried = async {
            sent_at(&renewals, clock::now());
            renew(&renewals, Duration::from_millis(100)).await;
        };
        tokio::join!(patient, hurried);
        assert_eq!(told.recv().await, Some(4));
        assert_eq!(lock(&renewals.queue).goes_at, None);
    }

    #[tokio::test]
    async fn a_full_batch_waits_no_longer() {
        let (renewals, mut told) = renewals();
        sent_at(&renewals, clock::now().plus(PATIENCE));
        join_all((0..BATCH_MAX).map(|_| renew(&renewals, Duration::from_secs(30)))).await;
        assert_eq!(told.recv().await, Some(BATCH_MAX));
    }
}
