//! Turns of a key that go together.
//!
//! A process whose holder leaves withdraws one claim and asks with the next one, both at once. Each
//! by itself reads the row and writes it by compare-and-swap, so the second comes too late and
//! pauses. When all processes of a hot key are in that pause, nobody stands in its line.
//!
//! So in a process one turn of a key *leads*: it reads, and it writes. Those that begin before it
//! was answered go along: the register does what each of them asks, in order of arrival, and the
//! row is written once. A claim that withdraws waits a moment for those who are [`Coming`]: a thread
//! that asks for both may be stopped in between, and on a busy machine most often is.
//!
//! Four things hold:
//!
//! - *Nobody waits for a leader that is gone.* To lead is a value, [`Lead`]. Wherever it is dropped,
//!   it goes to the first in the queue.
//! - *Nobody waits for long.* One that is not taken along within [`PATIENCE`] goes by itself, so a
//!   connection that hangs holds up one request: a read has nobody along with it. A write has, and
//!   what they asked for may have taken effect.
//! - *A request takes no effect behind its time.* Its claim may be withdrawn by then. Each read is
//!   older than the look at the time, so a write that comes still later finds another version.
//! - *Nobody is told of a time before it came.* It may go along with a read that was sent before.
//!   Only a row that was written is an answer then, as the swap finds that nobody came in between.
//!   The time since that read is taken off a lease, which counts from the later request.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::row::{Entry, With};
use crate::backend::register::Turn;
use crate::backend::{ClaimId, Fault, Grant, io};
use crate::ground::{Plus as _, clock, lock};
use crate::key::Key;
use crate::proto::lease::drift;

/// How long to wait for another turn. A read takes less where the database is well.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// How long one that withdraws waits, once it has read, for those who are coming. Without them it
/// would cost a read and a write more, and as long.
pub(super) const COMING_WITHIN: Duration = Duration::from_millis(2);

/// So many go along with one turn at most; the next are for the one behind it.
const ALONG_MAX: usize = 64;

/// When a turn writes the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    /// As nearly all do.
    WhereItChanges,
    /// It waits then for whoever has the row, and a write of an older version comes too late.
    InAnyCase,
}

type Does<A> = dyn Fn(&mut Entry, &Turn<'_, With>) -> A + Send + Sync;

/// What a turn asks of the register of a key.
pub(super) struct Asks<A> {
    /// The claim that asks, which needs not be told of what it is answered.
    pub(super) claim: Option<ClaimId>,
    pub(super) writes: Writes,
    /// It waits for those who are coming.
    waits: bool,
    ask: Arc<Does<A>>,
    /// The answer where its claim has the key in the end, whatever was answered before.
    granted: Option<fn(Grant) -> A>,
}

impl<A> Asks<A> {
    pub(super) fn of(
        claim: Option<ClaimId>,
        ask: impl Fn(&mut Entry, &Turn<'_, With>) -> A + Send + Sync + 'static,
    ) -> Self {
        let (writes, waits) = (Writes::WhereItChanges, false);
        Self { claim, writes, waits, ask: Arc::new(ask), granted: None }
    }

    /// Has it go together with those who are coming.
    pub(super) fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    pub(super) fn writing(self, writes: Writes) -> Self {
        Self { writes, ..self }
    }

    pub(super) fn answering(self, granted: fn(Grant) -> A) -> Self {
        Self { granted: Some(granted), ..self }
    }

    pub(super) fn ask(&self, entry: &mut Entry, turn: &Turn<'_, With>) -> A {
        (self.ask)(entry, turn)
    }

    /// Puts an answer right: what was asked for behind it, in the same turn, may have brought its
    /// claim the key, or one that waits. `late` is what may be over of a lease that began with the
    /// read.
    pub(super) fn settle(&self, answer: &mut A, entry: &Entry, now: Duration, late: Duration) {
        if let (Some(granted), Some(claim)) = (self.granted, self.claim)
            && let Some(grant) = entry.grant_of(claim, now)
        {
            let valid_for = grant.valid_for.saturating_sub(late);
            *answer = granted(Grant { valid_for, ..grant });
        }
    }
}

impl<A> Clone for Asks<A> {
    fn clone(&self) -> Self {
        Self { ask: self.ask.clone(), ..*self }
    }
}

/// The turns under way in this process, by key.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// A key is here while one of its turns leads.
    led: Mutex<HashMap<Key, Queue>>,
    /// How many are coming.
    coming: Mutex<HashMap<Key, usize>>,
    /// One of them has come, or will not.
    came: Notify,
}

/// A claim that was made and has asked for nothing yet: it is about to.
#[derive(Debug)]
pub(super) struct Coming {
    turns: Arc<Turns>,
    key: Key,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut coming = lock(&self.turns.coming);
        if let Some(claims) = coming.get_mut(&self.key) {
            *claims -= 1;
            if *claims == 0 {
                coming.remove(&self.key);
                if coming.is_empty() {
                    coming.shrink_to(64);
                }
            }
        }
        drop(coming);
        self.turns.came.notify_waiters();
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// The number of the next to come.
    next: u64,
    waiting: VecDeque<Numbered>,
}

type Numbered = (u64, Box<dyn Goes>);

/// The state in which a turn begins.
pub(super) enum Begun<A> {
    Leads(Lead),
    Follows(Place<A>),
}

/// The end of a wait for another turn.
pub(super) enum Told<A> {
    /// Its answer, and the version of the row that it knows of; or what became of the write.
    Answer(Result<(A, Option<i64>), Fault>),
    /// It has the lead from now on.
    Leads(Lead),
    /// Nobody took it along, and nobody will.
    Alone,
    /// It was taken along, and nobody said what became of it.
    Lost,
}

impl Turns {
    /// Whether a turn of this key is under way.
    pub(super) fn is_led(&self, key: &Key) -> bool {
        lock(&self.led).contains_key(key)
    }

    /// A claim was made, and is about to ask for this key.
    pub(super) fn comes(self: &Arc<Self>, key: &Key) -> Coming {
        *lock(&self.coming).entry(key.clone()).or_default() += 1;
        Coming { turns: self.clone(), key: key.clone() }
    }

    /// Waits a moment for those who are coming.
    async fn have_come(&self, key: &Key) {
        let until = clock::now().plus(COMING_WITHIN);
        loop {
            let mut came = pin!(self.came.notified());
            came.as_mut().enable();
            let is_awaited = lock(&self.coming).contains_key(key);
            if !is_awaited || io::by(until, came).await.is_err() {
                return;
            }
        }
    }

    /// Begins a turn: as the leader if there is none.
    pub(super) fn begin<A: Send + 'static>(
        self: &Arc<Self>,
        key: &Key,
        asks: &Asks<A>,
        by: Instant,
    ) -> Begun<A> {
        let mut keys = lock(&self.led);
        let Some(queue) = keys.get_mut(key) else {
            keys.insert(key.clone(), Queue::default());
            return Begun::Leads(Lead(Some((self.clone(), key.clone()))));
        };
        let (reply, told) = oneshot::channel();
        let (number, came) = (queue.next, clock::now());
        queue.next += 1;
        let goes = Follower { asks: asks.clone(), came, by, answer: None, reply };
        queue.waiting.push_back((number, Box::new(goes)));
        drop(keys);
        let patient_until = came.plus(PATIENCE).min(by);
        Begun::Follows(Place {
            turns: self.clone(),
            key: key.clone(),
            number,
            patient_until,
            by,
            told,
        })
    }

    /// Takes one out of the queue; whether it was there.
    fn leave(&self, key: &Key, number: u64) -> bool {
        let mut keys = lock(&self.led);
        let Some(Queue { waiting, .. }) = keys.get_mut(key) else { return false };
        let at = waiting.iter().position(|(other, _)| *other == number);
        let left = at.and_then(|at| waiting.remove(at));
        drop(keys);
        left.is_some()
    }
}

/// A place in the queue of a key.
pub(super) struct Place<A> {
    turns: Arc<Turns>,
    key: Key,
    number: u64,
    patient_until: Instant,
    by: Instant,
    told: oneshot::Receiver<Told<A>>,
}

impl<A> Place<A> {
    /// Waits for the answer, or for what else there is to do. Dropped, it leaves what it asked for
    /// undone, unless that was sent.
    pub(super) async fn told(mut self) -> Told<A> {
        let mut until = self.patient_until;
        loop {
            match io::by(until, &mut self.told).await {
                Ok(told) => return told.unwrap_or(Told::Lost),
                Err(_) if self.turns.leave(&self.key, self.number) => return Told::Alone,
                // It is taken along, and may be back in the queue by then.
                Err(_) if until < self.by => until = clock::now().plus(PATIENCE).min(self.by),
                Err(_) => return Told::Lost,
            }
        }
    }
}

/// One that goes along, whatever its answer is.
trait Goes: Send {
    fn knows(&self, claim: ClaimId) -> bool;
    fn writes(&self) -> Writes;
    /// Whether nobody waits for it any more, or its time is over.
    fn is_over(&self, now: Instant) -> bool;
    /// Whether it came behind this.
    fn is_late(&self, read_at: Instant) -> bool;
    fn ask(&mut self, entry: &mut Entry, turn: &Turn<'_, With>);
    fn settle(&mut self, entry: &Entry, now: Duration, read_at: Instant);
    fn reply(self: Box<Self>, version: Result<Option<i64>, Fault>);
    /// Gives it the lead, and back if it is gone.
    fn lead(self: Box<Self>, lead: Lead) -> Option<Lead>;
}

struct Follower<A> {
    asks: Asks<A>,
    came: Instant,
    by: Instant,
    answer: Option<A>,
    reply: oneshot::Sender<Told<A>>,
}

impl<A: Send> Goes for Follower<A> {
    fn knows(&self, claim: ClaimId) -> bool {
        self.asks.claim == Some(claim)
    }

    fn writes(&self) -> Writes {
        self.asks.writes
    }

    fn is_over(&self, now: Instant) -> bool {
        self.by <= now || self.reply.is_closed()
    }

    fn is_late(&self, read_at: Instant) -> bool {
        read_at < self.came
    }

    fn ask(&mut self, entry: &mut Entry, turn: &Turn<'_, With>) {
        self.answer = Some(self.asks.ask(entry, turn));
    }

    fn settle(&mut self, entry: &Entry, now: Duration, read_at: Instant) {
        if let Some(answer) = &mut self.answer {
            let late = self.came.saturating_duration_since(read_at);
            self.asks.settle(answer, entry, now, late + drift(late));
        }
    }

    fn reply(self: Box<Self>, version: Result<Option<i64>, Fault>) {
        let Self { answer: Some(answer), reply, .. } = *self else { return };
        // Whoever asked may be gone.
        let _ = reply.send(Told::Answer(version.map(|version| (answer, version))));
    }

    fn lead(self: Box<Self>, lead: Lead) -> Option<Lead> {
        match self.reply.send(Told::Leads(lead)) {
            Err(Told::Leads(lead)) => Some(lead),
            _ => None,
        }
    }
}

impl fmt::Debug for dyn Goes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Goes")
    }
}

/// The lead of a key's turns in this process. `None` once it was handed on.
#[derive(Debug)]
pub(super) struct Lead(Option<(Arc<Turns>, Key)>);

impl Drop for Lead {
    fn drop(&mut self) {
        let Some((turns, key)) = self.0.take() else { return };
        loop {
            let first = {
                let mut keys = lock(&turns.led);
                let Some(queue) = keys.get_mut(&key) else { return };
                let first = queue.waiting.pop_front();
                if first.is_none() {
                    keys.remove(&key);
                    if keys.is_empty() {
                        keys.shrink_to(64);
                    }
                }
                first
            };
            // Woken outside of the mutex: it may be a task of the application's.
            let Some((_, first)) = first else { return };
            match first.lead(Self(Some((turns.clone(), key.clone())))) {
                Some(mut back) => back.0 = None,
                None => return,
            }
        }
    }
}

/// The turns that go along with one that leads.
///
/// Dropped between two writes, as where a read fails, it puts them back into the queue. Dropped
/// while a write is under way it does not, and they hear nothing: it may have taken effect.
#[derive(Debug)]
pub(super) struct Company {
    going: Vec<Numbered>,
    is_sent: bool,
    /// Dropped behind the others were put back. `None` of a turn that goes by itself.
    lead: Option<Lead>,
}

impl Company {
    pub(super) fn of(lead: Lead) -> Self {
        Self { going: Vec::new(), is_sent: false, lead: Some(lead) }
    }

    pub(super) fn none() -> Self {
        Self { going: Vec::new(), is_sent: false, lead: None }
    }

    /// Takes along those who have come, and leaves out those whose time is over. A turn that waits
    /// for those who are coming does so here, if it leads: else nobody goes along.
    pub(super) async fn gather<A>(&mut self, asks: &Asks<A>) {
        let Some((turns, key)) = self.lead.as_ref().and_then(|lead| lead.0.as_ref()) else {
            return;
        };
        if asks.waits {
            turns.have_come(key).await;
        }
        if let Some(queue) = lock(&turns.led).get_mut(key) {
            let room = ALONG_MAX.saturating_sub(self.going.len()).min(queue.waiting.len());
            self.going.extend(queue.waiting.drain(..room));
        }
        let now = clock::now();
        self.going.retain(|(_, goes)| !goes.is_over(now));
    }

    pub(super) fn ask(&mut self, entry: &mut Entry, turn: &Turn<'_, With>) {
        self.going.iter_mut().for_each(|(_, goes)| goes.ask(entry, turn));
    }

    /// Puts the answers right, by what the register is in the end.
    pub(super) fn settle(&mut self, entry: &Entry, now: Duration, read_at: Instant) {
        self.going.iter_mut().for_each(|(_, goes)| goes.settle(entry, now, read_at));
    }

    pub(super) fn knows(&self, claim: ClaimId) -> bool {
        self.going.iter().any(|(_, goes)| goes.knows(claim))
    }

    pub(super) fn writes_in_any_case(&self) -> bool {
        self.going.iter().any(|(_, goes)| goes.writes() == Writes::InAnyCase)
    }

    /// The row is being written from now on, until that was answered.
    pub(super) fn is_sent(&mut self) {
        self.is_sent = true;
    }

    /// Nothing was written: they are in the queue again, and go along with the next write.
    pub(super) fn unsent(&mut self) {
        self.is_sent = false;
        self.put_back();
    }

    fn put_back(&mut self) {
        if let Some((turns, key)) = self.lead.as_ref().and_then(|lead| lead.0.as_ref())
            && let Some(queue) = lock(&turns.led).get_mut(key)
        {
            self.going.drain(..).rev().for_each(|goes| queue.waiting.push_front(goes));
        }
    }

    /// The row was written, or nobody knows.
    pub(super) fn written(mut self, version: &Result<Option<i64>, Fault>) {
        for (_, goes) in self.going.drain(..) {
            goes.reply(version.clone());
        }
    }

    /// The row says what is to be said. Those who came behind the read are for the next one.
    pub(super) fn unwritten(mut self, version: Option<i64>, read_at: Instant) {
        let (late, here) = std::mem::take(&mut self.going)
            .into_iter()
            .partition(|(_, goes)| goes.is_late(read_at));
        self.going = late;
        for (_, goes) in here {
            goes.reply(Ok(version));
        }
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        if !self.is_sent {
            self.put_back();
        }
    }
}
