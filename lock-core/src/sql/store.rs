//! The verbs over a database: the short way where one statement will do, else a turn of the
//! register.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::changes::{Changes, Sight, Unread};
use super::dialect::{Ask, Dialect, Polls, Taken, Within};
use super::errands::Errands;
use super::fault::DatabaseError;
use super::row::{Entry, With, leader};
use super::together::{Asks, Turns, Writes};
use crate::backend::io::{self, Home, Pauses};
use crate::backend::register::{OtherLimit, Place, Turn};
use crate::backend::{
    Attempt, ClaimId, Fault, FaultKind, Following, Grant, Manner, Renewal, Withdrawal,
};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::token::FencingToken;
use crate::view::{Holder, Inspection, KeyList, Waiter};

/// How long a request may take.
pub(super) const REQUEST: Duration = Duration::from_secs(2);

/// One who waits asks again after this time at the latest.
pub(super) const RECHECK: Duration = Duration::from_millis(500);

/// One who waits and did not ask for so long is passed over.
const WAITER_LIFE: Duration = Duration::from_millis(1_500);

/// A place in the line is written anew only when it would end sooner than this.
const WAITER_LEFT: Duration = Duration::from_millis(1_100);

/// Between two looks that failed: a store that does not answer is asked by those who wait for it.
const LOOK_PAUSES: Pauses = Pauses::new(Duration::from_millis(50), Duration::from_secs(1));

/// Between two sweeps, and for how long a row was not used by then.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Between two parts of a sweep, so that it is in nobody's way.
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// The time for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    within: Duration,
    pub(super) by: Instant,
}

impl Budget {
    /// From now on.
    pub(super) fn of(within: Duration) -> Self {
        Self { within, by: clock::now().plus(within) }
    }
}

/// Locks in one database, for all clients and claims that share it.
#[derive(Debug)]
pub(super) struct Store<D> {
    pub(super) dialect: D,
    pub(super) home: Arc<Home>,
    pub(super) changes: Arc<Changes>,
    errands: Arc<Errands>,
    pub(super) turns: Arc<Turns>,
}

impl<D> Drop for Store<D> {
    fn drop(&mut self) {
        self.changes.stirred().notify_one();
    }
}

/// The answer of a verb, and the version of the row that it knows of.
pub(super) type Answered<A> = Result<(A, Option<i64>), Fault>;

impl<D: Dialect> Store<D> {
    /// Starts with a task that listens to others and tidies up, for as long as somebody has it.
    pub(super) fn start(dialect: D, home: Arc<Home>) -> Arc<Self> {
        let changes = Arc::new(Changes::new(dialect.hearing()));
        dialect.hear(&changes);
        let errands = Errands::new(home.clone());
        let turns = Arc::default();
        let store = Arc::new(Self { dialect, home: home.clone(), changes, errands, turns });
        // Nobody waits for its end.
        drop(home.spawn(tend(Arc::downgrade(&store), home.clone())));
        store
    }

    /// Has a request run to its end, whoever drops this, and waits for its answer until the time for
    /// it is over. It runs at home, unless its caller may poll it and is alone.
    pub(super) async fn ask<T, F>(
        self: &Arc<Self>,
        budget: Budget,
        ask: impl FnOnce(Arc<Self>, Instant) -> F,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let Budget { within, by } = budget;
        // A cause that is known by then, such as a busy file, is told rather than the silence.
        let told_by = by.plus(within / 8);
        let request = ask(self.clone(), by);
        let asked = async {
            match D::POLLS {
                Polls::AtHome => self.home.spawn(request).await,
                Polls::Anywhere => self.errands.run(request).await,
            }
        };
        match io::by(told_by, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(ended)) => Err(other(format!("its thread `lock-io` lost the request: {ended}"))),
            Err(_) => Err(other(format!("no answer within {within:?}"))),
        }
    }

    /// Has the key at once if it can be had in this `manner`, or gets into the line. `place` says who
    /// asks.
    pub(super) async fn attempt(
        &self,
        ask: Ask,
        place: Place<With>,
        manner: Manner,
        is_new: bool,
        by: Instant,
    ) -> Answered<Attempt> {
        // A key that a turn of this process is under way for is not free most often.
        let may_be_short = is_new && is_plain(&place) && !self.turns.is_led(&ask.key);
        if may_be_short && let Some(taken) = self.dialect.take(&ask, by).await? {
            let grant = Grant::new(taken.tokens, ask.lease);
            return Ok((Attempt::Granted(grant), Some(taken.version)));
        }
        let turn = move |entry: &mut Entry, turn: &Turn<'_, With>| {
            // A place that lasts for long enough is left as it is: nothing is written then.
            let stands = entry.line().find(|other| other.claim == place.claim);
            let due =
                stands.and_then(|other| other.due).filter(|due| *due > turn.now + WAITER_LEFT);
            let due = Some(due.unwrap_or(turn.now + WAITER_LIFE));
            let place = Place { due, ..place.clone() };
            match manner {
                Manner::Forces => Ok(Attempt::Granted(entry.take_over(place, turn))),
                _ => entry.attempt(place, manner == Manner::Queues, turn),
            }
        };
        let asks = Asks::of(Some(ask.claim), turn).answering(|grant| Ok(Attempt::Granted(grant)));
        let (answer, version) = match manner {
            Manner::Queues => {
                let answered = self.turn_together(&ask.key, asks.clone(), by).await?;
                // What refuses it may have been over when it came, behind the read that it went
                // along with.
                if answered.0.is_ok() { answered } else { self.turn(&ask.key, asks, by).await? }
            }
            // One who was granted the key in the same turn would not have it any more, or not hear
            // that it was tried for.
            Manner::Forces | Manner::Tries => self.turn(&ask.key, asks, by).await?,
        };
        let answer = match answer.map_err(|OtherLimit(limit)| Fault::other_limit(limit))? {
            Attempt::Blocked { ahead, recheck } => {
                Attempt::Blocked { ahead, recheck: recheck.min(RECHECK) }
            }
            granted => granted,
        };
        Ok((answer, version))
    }

    pub(super) async fn renew(
        &self,
        ask: Ask,
        may_be_short: bool,
        by: Instant,
    ) -> Answered<Renewal> {
        if may_be_short && let Some(taken) = self.dialect.renew(&ask, by).await? {
            return Ok(extended(taken, ask.lease));
        }
        let Ask { key, claim, lease, tokens_max, .. } = ask;
        let turn = move |entry: &mut Entry, turn: &Turn<'_, With>| {
            entry.asks_again(claim, tokens_max);
            entry.renew(claim, lease, true, turn)
        };
        self.turn(&key, Asks::of(Some(claim), turn), by).await
    }

    pub(super) async fn downgrade(&self, ask: Ask, by: Instant) -> Answered<Renewal> {
        let Ask { key, claim, lease, tokens_max, .. } = ask;
        let turn = move |entry: &mut Entry, turn: &Turn<'_, With>| {
            entry.asks_again(claim, tokens_max);
            entry.downgrade(claim, lease, turn)
        };
        self.turn(&key, Asks::of(Some(claim), turn), by).await
    }

    /// Gives up what a claim has. One that is `in_doubt` has not heard what became of an attempt:
    /// it may be written and not committed yet, where nobody sees it, or be on its way.
    pub(super) async fn withdraw(
        &self,
        key: Key,
        claim: ClaimId,
        may_be_short: bool,
        in_doubt: bool,
        by: Instant,
    ) -> Result<Withdrawal, Fault> {
        if may_be_short && self.dialect.give_back(&key, claim, by).await? {
            return Ok(Withdrawal::Released);
        }
        let turn = move |entry: &mut Entry, turn: &Turn<'_, With>| entry.withdraw(claim, turn);
        let writes = if in_doubt { Writes::InAnyCase } else { Writes::WhereItChanges };
        let asks = Asks::of(Some(claim), turn).writing(writes).waiting();
        Ok(self.turn_together(&key, asks, by).await?.0)
    }

    /// Withdraws a claim once more when nothing can arrive any more that it has sent. A statement
    /// whose connection has ended may reach the server behind the withdrawal. By the short way it
    /// takes the key then, and nobody knows.
    pub(super) fn clear_away(self: &Arc<Self>, ask: &Ask, until: Instant) {
        if clock::now() >= until {
            return;
        }
        let (store, key, claim) = (self.clone(), ask.key.clone(), ask.claim);
        let gone_by = until.plus(ask.lease);
        let clearing = async move {
            let (mut next, mut tries) = (until, 0);
            // What cannot be cleared away ends with its lease.
            while next < gone_by {
                store.home.sleep_until(next).await;
                let key = key.clone();
                let withdraw = |store: Arc<Self>, by| async move {
                    store.withdraw(key, claim, false, true, by).await
                };
                match store.ask(Budget::of(REQUEST), withdraw).await {
                    Err(fault) if fault.is_transient() => tries += 1,
                    _ => return,
                }
                next = clock::now().plus(LOOK_PAUSES.after(tries));
            }
        };
        // Nobody waits for it.
        drop(self.home.spawn(clearing));
    }

    /// The leader of the election on a key.
    pub(super) async fn follow(
        &self,
        key: Key,
        lease: Duration,
        by: Instant,
    ) -> Answered<Following> {
        let seen = self.dialect.read(&key, by).await?;
        let entry = self.entry(&key, &seen)?;
        let until = entry.owners(seen.now).map(|owner| owner.until).min();
        let left = until.map(|until| until.saturating_sub(seen.now));
        let recheck = left.unwrap_or(lease).min(lease);
        let version = seen.row.map(|row| row.version);
        Ok((Following { leader: leader(&entry, seen.now), recheck }, version))
    }

    pub(super) async fn inspect(&self, key: Key, by: Instant) -> Result<Inspection, Fault> {
        let seen = self.dialect.read(&key, by).await?;
        let (entry, now) = (self.entry(&key, &seen)?, seen.now);
        let holders = entry.owners(now).map(|owner| {
            let token = owner.tokens.last().map(FencingToken::new);
            let left = owner.until.saturating_sub(now);
            Holder::new(owner.place.claim.to_string(), token, Some(left))
                .with_mode(owner.place.mode)
                .with_about(shown(&owner.place.with.about))
        });
        let waiter = |place: &Place<With>| {
            let about = shown(&place.with.about);
            Waiter::new(place.claim.to_string()).with_mode(place.mode).with_about(about)
        };
        let is_due = |place: &&Place<With>| place.due.is_none_or(|due| now < due);
        let waiters = entry.line().filter(is_due).map(waiter).collect();
        Ok(Inspection::new(holders, waiters))
    }

    pub(super) async fn list(
        &self,
        within: Option<Key>,
        max: usize,
        by: Instant,
    ) -> Result<KeyList, Fault> {
        let names =
            self.dialect.busy(&Within::of(within.as_ref()), max.saturating_add(1), by).await?;
        // Rows of whoever else writes into the table may have names that are no keys.
        Ok(KeyList::new(names.iter().filter_map(|name| Key::from_encoded(name).ok()), max, true))
    }

    pub(super) async fn request_revoke(&self, key: Key, by: Instant) -> Result<bool, Fault> {
        let ask = |entry: &mut Entry, turn: &Turn<'_, With>| entry.request_revoke(turn);
        Ok(self.turn(&key, Asks::of(None, ask), by).await?.0)
    }

    pub(super) async fn force_release(&self, key: Key, by: Instant) -> Result<bool, Fault> {
        let ask = |entry: &mut Entry, turn: &Turn<'_, With>| entry.force_release(turn);
        Ok(self.turn(&key, Asks::of(None, ask), by).await?.0)
    }

    /// Deletes the rows that nobody has used for so long, from the first name to the last, for as long
    /// as somebody has the store; how many. No statement looks at more than a part, as a table may have
    /// millions that are in use.
    pub(super) async fn sweep(store: Weak<Self>, idle: Duration) -> Result<u64, Fault> {
        let (mut all, mut within) = (0, Within::of(None));
        let end = within.before.clone();
        while let Some(this) = store.upgrade() {
            let next = {
                let _stays = this.errands.at_home();
                let next = this.dialect.behind(&within.from, clock::now().plus(REQUEST)).await?;
                within.before = next.clone().unwrap_or_else(|| end.clone());
                all += this.dialect.sweep(&within, idle, clock::now().plus(REQUEST)).await?;
                next
            };
            let Some(next) = next else { break };
            within.from = next;
            let home = this.home.clone();
            drop(this);
            home.sleep_until(clock::now().plus(SWEEP_PAUSE)).await;
        }
        Ok(all)
    }
}

/// The answer to a renewal that took the short way, and the version of the row.
pub(super) fn extended(taken: Taken, lease: Duration) -> (Renewal, Option<i64>) {
    let grant = Grant { wanted: taken.wanted, ..Grant::new(taken.tokens, lease) };
    (Renewal::Held(grant), Some(taken.version))
}

/// Whether the columns of a row have a place for all that there is to such a claim.
pub(super) fn is_plain(place: &Place<With>) -> bool {
    place.mode == crate::mode::Mode::Exclusive && place.with.value.is_none()
}

fn shown(about: &str) -> String {
    about.escape_debug().to_string()
}

pub(super) fn other(what: String) -> Fault {
    let error = DatabaseError::Other { what };
    Fault::new(FaultKind::Transient, error.to_string()).with_source(error)
}

/// Reads what others may have written while somebody listens, and tidies up.
async fn tend<D: Dialect>(store: Weak<Store<D>>, home: Arc<Home>) {
    let Some(stirred) = store.upgrade().map(|store| store.changes.stirred()) else { return };
    let share = f64::from(clock::random_bits()) / f64::from(u32::MAX);
    let mut sweep_at = clock::now().plus(SWEEP_EVERY.mul_f64(0.5 + share));
    let mut sweeping = None;
    let (mut looked, mut mark, mut failures) = (clock::now(), None, 0);
    loop {
        // Counted from the last look, so that those who begin to listen put none off.
        let Some(look_at) = store.upgrade().map(|store| store.changes.look_at(looked)) else {
            return;
        };
        let again_at = (failures > 0).then(|| looked.plus(LOOK_PAUSES.after(failures)));
        let next = again_at.or(look_at).unwrap_or(sweep_at).min(sweep_at);
        tokio::select! {
            // Nobody is served sooner by asking a database that does not answer more often.
            () = stirred.notified(), if failures == 0 => {}
            () = home.sleep_until(next) => {}
        }
        let Some(store) = store.upgrade() else { return };
        let now = clock::now();
        if now >= sweep_at {
            // Rows that this sweep leaves are for the next one. It may take minutes, and nobody
            // waits for it.
            if sweeping.as_ref().is_none_or(JoinHandle::is_finished) {
                let sweep = Store::sweep(Arc::downgrade(&store), SWEEP_EVERY);
                sweeping = Some(home.spawn(sweep));
            }
            sweep_at = clock::now().plus(SWEEP_EVERY);
        }
        let looks = look_at.is_some_and(|at| now >= at);
        failures = match read(&store, looks, &mut mark).await {
            Ok(()) => 0,
            Err(_) => {
                store.changes.unread_all();
                failures + 1
            }
        };
        if looks || failures > 0 {
            looked = clock::now();
        }
    }
}

/// Tells the rows that others may have written, as it was heard, or by the database's mark if this
/// is a look.
async fn read<D: Dialect>(
    store: &Store<D>,
    looks: bool,
    last: &mut Option<i64>,
) -> Result<(), Fault> {
    let _stays = store.errands.at_home();
    let by = clock::now().plus(REQUEST);
    let (mut unread, mut mark) = (store.changes.take_unread(), *last);
    match looks.then(|| store.changes.due(clock::now())) {
        None => {}
        Some(Some(keys)) => keys.iter().for_each(|key| unread.add(key)),
        Some(None) => {
            mark = store.dialect.mark(by).await?;
            if mark.is_some() && mark != *last {
                unread = Unread::All;
            }
        }
    }
    let keys = match unread {
        Unread::Nothing => return Ok(()),
        Unread::Some(keys) => keys.into_iter().collect(),
        Unread::All => store.changes.keys(),
    };
    if !keys.is_empty() {
        let asked = clock::now();
        let rows = store.dialect.read_all(&keys, by).await?.into_iter();
        let sights = rows.map(|(name, row, now)| (name, Sight { row, now, asked }));
        let mut sights: HashMap<_, _> = sights.collect();
        for key in &keys {
            match sights.remove(key.as_str()) {
                Some(sight) => store.changes.tell(key, sight),
                None => store.changes.tell_gone(key),
            }
        }
    }
    *last = mark;
    Ok(())
}
