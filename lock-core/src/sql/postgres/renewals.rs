//! Renewals go together: one that comes alone is sent at once, and those that come shortly after it
//! wait for each other, so that ten thousand holds cost few statements.
//!
//! A statement renews what it finds unlocked, as one row that somebody else keeps must not hold up
//! the others. What it has not renewed is asked for alone, which says why. Batches do not wait for one
//! another: each ends by the time of those in it, and a claim of a short lease by its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::Row as _;
use tokio::sync::oneshot;

use super::arg::Arg;
use super::dialect::odd;
use super::link::Link;
use crate::backend::Fault;
use crate::ground::{Plus as _, clock, lock};
use crate::sql::dialect::{Ask, Taken};
use crate::sql::fault::DatabaseError;
use crate::sql::lane::Lane;
use crate::sql::read::Found;
use crate::sql::remote::Twice;
use crate::sql::row::ms;

/// Batches are so far apart: short beside a sixth of the shortest lease, which is what one may take.
const APART: Duration = Duration::from_millis(10);

/// The most claims of a statement, so that none holds the server up.
const BATCH_MAX: usize = 500;

/// The place of the claim, behind what a grant has. It is what a row is known by: two claims of one
/// key may be in a batch, of which one holds it no more.
const CLAIM: usize = 5;

/// What a claim was given; `None` where it has to ask alone.
type Answer = Result<Option<Taken>, Fault>;

/// The renewals of a store.
#[derive(Debug)]
pub(super) struct Renewals {
    link: Arc<Link>,
    text: Arc<str>,
    requests: Arc<AtomicU64>,
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

impl Renewals {
    /// It counts its `requests` with those of the store.
    pub(super) fn new(link: Arc<Link>, text: Arc<str>, requests: Arc<AtomicU64>) -> Self {
        Self { link, text, requests, queue: Mutex::default() }
    }

    /// Has a claim renewed with others; `None` where it has to ask alone, as it is alone.
    pub(super) async fn renew(self: &Arc<Self>, ask: &Ask, by: Instant) -> Answer {
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
                1 => drop(self.link.home().spawn(send(self.clone(), goes_at))),
                BATCH_MAX => self.send_now(&mut queue),
                _ => {}
            }
            answered
        };
        match self.link.home().timeout_at(by, answered).await {
            Ok(Ok(answer)) => answer,
            // It was not sent, or is not answered: whoever waits tries again in time.
            _ => {
                let server = self.link.config().server();
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
            drop(self.link.home().spawn(async move { this.serve(batch).await }));
        }
    }

    async fn serve(&self, mut batch: Vec<Waiting>) {
        // The rows are locked in this order, by all who renew several.
        batch.sort_unstable_by(|one, other| one.ask.key.as_str().cmp(other.ask.key.as_str()));
        let Some(by) = batch.iter().map(|waiting| waiting.by).max() else { return };
        let texts = |of: fn(&Ask) -> String| {
            Arg::Texts(batch.iter().map(|waiting| of(&waiting.ask)).collect())
        };
        let wholes = |of: fn(&Ask) -> i64| {
            Arg::Wholes(batch.iter().map(|waiting| of(&waiting.ask)).collect())
        };
        let args = [
            texts(|ask| ask.key.to_string()),
            texts(|ask| ask.claim.to_string()),
            texts(|ask| ask.about.to_string()),
            wholes(|ask| ms(ask.lease)),
            wholes(|ask| i64::from(ask.tokens_max)),
        ];
        self.requests.fetch_add(1, Ordering::Relaxed);
        let asked = self.link.run(by, &self.text, &args, Twice::Same);
        let answer = match Lane::Renewals.scope(asked).await {
            Ok(rows) => rows
                .iter()
                .map(|row| Ok((row.try_get::<String, _>(CLAIM)?, Found(row).taken()?)))
                .collect::<Result<HashMap<_, _>, sqlx::Error>>()
                .map_err(odd),
            Err(fault) => Err(fault),
        };
        for Waiting { ask, answer: waits, .. } in batch {
            let answer = match &answer {
                Ok(renewed) => Ok(renewed.get(&ask.claim.to_string()).copied()),
                Err(fault) => Err(fault.clone()),
            };
            // Whoever has asked may be gone.
            drop(waits.send(answer));
        }
    }
}

async fn send(renewals: Arc<Renewals>, goes_at: Instant) {
    renewals.link.home().sleep_until(goes_at).await;
    let mut queue = lock(&renewals.queue);
    renewals.send_now(&mut queue);
}
