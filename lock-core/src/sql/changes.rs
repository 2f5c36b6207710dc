//! The listeners that are told when the row of a key has changed.
//!
//! A change that this process makes is told at once. Those of others are heard of as the database
//! has it, see [`Hearing`]: a task of the store looks now and then while somebody listens, or
//! others say so. The pauses have jitter, so that no two processes stay in step.
//!
//! Nothing is missed between an answer and the first look: whoever begins to listen has the row
//! read. Where others say so that is spared, as whoever asks listens before that. So it is for one
//! who waits where each key is looked at by itself: the first look is soon.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::sync::{Notify, watch};

use super::row::Row;
use crate::backend::ClaimId;
use crate::ground::{Plus as _, clock, lock};
use crate::key::Key;

/// The way in which a store hears of what others write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It looks, so often while somebody waits for a key, and so often while those who listen hold
    /// or follow.
    Looks { waiting: Duration, holding: Duration },
    /// It looks at each key by itself: so often while its claim is the first in the line, less
    /// often the further back it stands, and so often while those who listen hold or follow.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "others have something cheaper"))]
    LooksByPlace { first: Duration, holding: Duration },
    /// Others say so.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "a file says nothing"))]
    Told,
}

/// A row, the database's time at which it was so or later, and ours before it was asked for.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) row: Row,
    pub(super) now: Duration,
    pub(super) asked: Instant,
}

/// A row as it was last seen.
#[derive(Debug, Clone)]
enum Last {
    /// Nobody has looked yet.
    Unseen,
    Row(Arc<Sight>),
    /// It was there, and is not there any more.
    Gone,
}

/// The listeners of a store, and the rows that are to be read for them.
#[derive(Debug)]
pub(super) struct Changes {
    hearing: Mutex<Hearing>,
    keys: Mutex<HashMap<Key, Listeners>>,
    /// The number of listeners that wait for a key.
    waiting: Mutex<usize>,
    unread: Mutex<Unread>,
    /// There is something unread, it is heard in another way, or the store is gone.
    stirred: Arc<Notify>,
}

/// The claims that listen to a key, and the row that they were told last.
#[derive(Debug)]
struct Listeners {
    last: watch::Sender<Last>,
    claims: SmallVec<[Listener; 2]>,
    /// When the key had another holder, or the first began to listen. Those who wait write the row
    /// now and then as well, which says nothing of it.
    changed_hands: Instant,
    /// When to look at this key next, where each is looked at by itself.
    look_at: Instant,
}

/// A claim that listens.
#[derive(Debug, Clone, Copy)]
struct Listener {
    claim: ClaimId,
    why: Why,
}

/// The reason why a claim listens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It has asked for the key, and was not told yet that it waits.
    Asks,
    /// It waits for the key.
    Waits,
    /// It has the key, and its renewals tell what the others want as well.
    Holds,
    /// It follows who leads, and nothing else tells.
    Follows,
}

/// For each place in the line before a claim, the look at its key is so much later, up to a most.
const PLACE_STEP: Duration = Duration::from_millis(50);
const PLACE_MOST: Duration = Duration::from_millis(500);

/// And for each place as soon as this where the key has just changed hands. The pause is a quarter of
/// the time since then: a key that changes hands quickly is looked at often, and one that is held for
/// long is not.
const PLACE_SOON: Duration = Duration::from_millis(10);
const PAUSES_SINCE: u32 = 4;

/// So many keys are looked at within one pace of those who hold. Where there are more, each has its
/// turn less often: what it is for, that a holder hears of others, its renewals tell as well.
const HELD_AT_PACE: usize = 256;

/// How long to wait with the next look at one of so many keys that are held.
fn pace_of(held: usize, holding: Duration) -> Duration {
    holding.saturating_mul(u32::try_from(held.div_ceil(HELD_AT_PACE).max(1)).unwrap_or(u32::MAX))
}

impl Why {
    fn wants_the_key(self) -> bool {
        matches!(self, Self::Asks | Self::Waits)
    }
}

impl Listener {
    /// Whether a change concerns it that leaves the key with this claim alone, or with none or several.
    #[cfg(feature = "postgres")]
    fn is_concerned(&self, holder: Option<ClaimId>) -> bool {
        self.why != Why::Waits || holder.is_none_or(|holder| holder == self.claim)
    }
}

impl Listeners {
    fn only_hold(&self) -> bool {
        self.claims.iter().all(|listener| listener.why == Why::Holds)
    }

    /// The pace of a key that nobody waits for, of so many that are listened to.
    fn idle_pace(&self, keys: usize, holding: Duration) -> Duration {
        if self.only_hold() { pace_of(keys, holding) } else { holding }
    }

    /// How long to wait with the next look at this key.
    fn pace(&self, now: Instant, first: Duration, holding: Duration) -> Duration {
        let waiting = self.claims.iter().filter(|listener| listener.why.wants_the_key());
        let place = match &*self.last.borrow() {
            // Where it stands nowhere it may be the next all the same.
            Last::Unseen | Last::Gone => waiting.map(|_| 0).min(),
            Last::Row(last) => {
                waiting.map(|listener| last.row.place_of(listener.claim).unwrap_or(0)).min()
            }
        };
        let Some(place) = place else { return holding };
        let nth = u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1);
        let most = if place == 0 { first } else { PLACE_STEP.saturating_mul(nth).min(PLACE_MOST) };
        let least = PLACE_SOON.saturating_mul(nth).min(most);
        (now.saturating_duration_since(self.changed_hands) / PAUSES_SINCE).clamp(least, most)
    }

    /// Looks later than now by the pace; not later than it was to look already.
    fn hurry(&mut self, hearing: Hearing, keys: usize) {
        if let Hearing::LooksByPlace { first, holding } = hearing {
            let (now, holding) = (clock::now(), self.idle_pace(keys, holding));
            let next = now.plus(jittered(self.pace(now, first, holding)));
            self.look_at = self.look_at.min(next);
        }
    }
}

/// No two processes stay in step.
fn jittered(pause: Duration) -> Duration {
    let share = f64::from(clock::random_bits()) / f64::from(u32::MAX);
    pause.mul_f64(0.5 + share)
}

/// The rows that are to be read, as they may differ from those that were told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Unread {
    #[default]
    Nothing,
    Some(HashSet<Key>),
    /// All that somebody listens to.
    All,
}

impl Unread {
    pub(super) fn add(&mut self, key: &Key) {
        match self {
            Self::Nothing => *self = Self::Some(HashSet::from([key.clone()])),
            Self::Some(keys) => {
                keys.insert(key.clone());
            }
            Self::All => {}
        }
    }
}

impl Changes {
    pub(super) fn new(hearing: Hearing) -> Self {
        Self {
            hearing: Mutex::new(hearing),
            keys: Mutex::default(),
            waiting: Mutex::default(),
            unread: Mutex::default(),
            stirred: Arc::default(),
        }
    }

    /// The way in which it is heard what others write.
    pub(super) fn hearing(&self) -> Hearing {
        *lock(&self.hearing)
    }

    /// It is heard in this way from now on. What was written in between is read.
    #[cfg(feature = "postgres")]
    pub(super) fn hear_by(&self, hearing: Hearing) {
        *lock(&self.hearing) = hearing;
        self.unread_all();
    }

    /// Has the changes of a key told to a claim from now on. It `reads` the row if it may have been
    /// written since the last answer.
    pub(super) fn listen(
        self: &Arc<Self>,
        key: &Key,
        claim: ClaimId,
        why: Why,
        reads: bool,
    ) -> Ear {
        let hearing = self.hearing();
        let mut keys = lock(&self.keys);
        let all = keys.len() + 1;
        let listeners = keys.entry(key.clone()).or_insert_with(|| {
            let (last, _) = watch::channel(Last::Unseen);
            // The first look is soon, by whoever reads or by its pace.
            let changed_hands = clock::now();
            let look_at = changed_hands.plus(PLACE_MOST);
            Listeners { last, claims: SmallVec::new(), changed_hands, look_at }
        });
        listeners.claims.push(Listener { claim, why });
        listeners.hurry(hearing, all);
        let row = listeners.last.subscribe();
        drop(keys);
        *lock(&self.waiting) += usize::from(why.wants_the_key());
        let is_looked_at_soon =
            why.wants_the_key() && matches!(hearing, Hearing::LooksByPlace { .. });
        if reads {
            if !is_looked_at_soon {
                lock(&self.unread).add(key);
            }
            // The next look may be sooner than the one that was to come.
            self.stirred.notify_one();
        }
        Ear { key: key.clone(), claim, row, why, changes: self.clone() }
    }

    /// Whether this claim is one of those who listen here.
    pub(super) fn hears(&self, key: &Key, claim: ClaimId) -> bool {
        lock(&self.keys).get(key).is_some_and(|listeners| {
            listeners.claims.iter().any(|listener| listener.claim == claim)
        })
    }

    /// Others say that they have written the row of this key, and which claim holds it alone. That says
    /// all that there is to those who wait behind it, and so the row is not read for them. One that has
    /// left the line unawares finds out by its recheck.
    #[cfg(feature = "postgres")]
    pub(super) fn unread(&self, key: &str, holder: Option<ClaimId>) {
        // Most of what is said is for other processes.
        let Ok(key) = Key::from_encoded(key) else { return };
        if self.concerns(&key, holder) {
            lock(&self.unread).add(&key);
            self.stirred.notify_one();
        }
    }

    /// Whether a change that leaves a key so is one for somebody who listens to it.
    #[cfg(feature = "postgres")]
    pub(super) fn concerns(&self, key: &Key, holder: Option<ClaimId>) -> bool {
        lock(&self.keys)
            .get(key)
            .is_some_and(|listeners| listeners.claims.iter().any(|one| one.is_concerned(holder)))
    }

    /// Any row may have been written by others.
    pub(super) fn unread_all(&self) {
        *lock(&self.unread) = Unread::All;
        self.stirred.notify_one();
    }

    /// Takes the rows that are to be read.
    pub(super) fn take_unread(&self) -> Unread {
        std::mem::take(&mut *lock(&self.unread))
    }

    /// Tells a row, unless a later one was told.
    pub(super) fn tell(&self, key: &Key, sight: Sight) {
        let hearing = self.hearing();
        let mut keys = lock(&self.keys);
        let all = keys.len();
        let Some(listeners) = keys.get_mut(key) else { return };
        let mut changed_hands = false;
        let is_told = listeners.last.send_if_modified(|last| {
            let is_news = match last {
                Last::Row(last) => {
                    changed_hands = last.row.holder != sight.row.holder;
                    last.row.version < sight.row.version
                }
                Last::Unseen | Last::Gone => true,
            };
            if is_news {
                *last = Last::Row(Arc::new(sight));
            }
            is_news
        });
        if is_told {
            if changed_hands {
                listeners.changed_hands = clock::now();
            }
            listeners.hurry(hearing, all);
        }
    }

    /// Tells that the row of a key was deleted.
    pub(super) fn tell_gone(&self, key: &Key) {
        let keys = lock(&self.keys);
        let Some(Listeners { last: sender, .. }) = keys.get(key) else { return };
        sender.send_if_modified(|last| {
            let is_news = matches!(last, Last::Row(_));
            if is_news {
                *last = Last::Gone;
            }
            is_news
        });
    }

    /// The keys that somebody listens to.
    pub(super) fn keys(&self) -> Vec<Key> {
        lock(&self.keys).keys().cloned().collect()
    }

    /// When to look next, by when it was looked last; `None` while nobody listens, and where others
    /// say so.
    pub(super) fn look_at(&self, looked: Instant) -> Option<Instant> {
        match self.hearing() {
            Hearing::Told => None,
            Hearing::Looks { waiting, holding } => {
                let all = lock(&self.keys).len();
                let base = match *lock(&self.waiting) {
                    0 if all == 0 => return None,
                    0 => holding,
                    _ => waiting,
                };
                Some(looked.plus(jittered(base)))
            }
            Hearing::LooksByPlace { .. } => {
                lock(&self.keys).values().map(|listeners| listeners.look_at).min()
            }
        }
    }

    /// The keys whose time has come; `None` where they are not looked at each by itself. Some whose
    /// claims hold go along though their time comes a little later, so that few statements read
    /// many.
    pub(super) fn due(&self, now: Instant) -> Option<Vec<Key>> {
        let Hearing::LooksByPlace { first, holding } = self.hearing() else { return None };
        let mut keys = lock(&self.keys);
        let all = keys.len();
        let soon = now.plus(pace_of(all, holding) / 2);
        let mut due: Vec<Key> = Vec::new();
        for (is_soon, by) in [(false, now), (true, soon)] {
            for (key, listeners) in keys.iter_mut().filter(|(_, other)| other.look_at <= by) {
                if is_soon && (due.len() >= HELD_AT_PACE || !listeners.only_hold()) {
                    continue;
                }
                let holding = listeners.idle_pace(all, holding);
                listeners.look_at = now.plus(jittered(listeners.pace(now, first, holding)));
                due.push(key.clone());
            }
            if due.is_empty() {
                break;
            }
        }
        Some(due)
    }

    /// Resolves when there is something unread, it is heard in another way, or the store is gone.
    pub(super) fn stirred(&self) -> Arc<Notify> {
        self.stirred.clone()
    }

    fn forget(&self, ear: &Ear) {
        let mut keys = lock(&self.keys);
        if let Some(listeners) = keys.get_mut(&ear.key) {
            if let Some(at) = listeners
                .claims
                .iter()
                .position(|listener| listener.claim == ear.claim && listener.why == ear.why)
            {
                listeners.claims.swap_remove(at);
            }
            if listeners.claims.is_empty() {
                keys.remove(&ear.key);
                if keys.is_empty() {
                    keys.shrink_to(64);
                }
            }
        }
        drop(keys);
        *lock(&self.waiting) -= usize::from(ear.why.wants_the_key());
    }

    /// A claim listens for another reason from now on.
    fn turn_to(&self, ear: &Ear, why: Why) {
        let hearing = self.hearing();
        let mut keys = lock(&self.keys);
        let all = keys.len();
        if let Some(listeners) = keys.get_mut(&ear.key) {
            let is_it = |other: &&mut Listener| other.claim == ear.claim && other.why == ear.why;
            if let Some(listener) = listeners.claims.iter_mut().find(is_it) {
                listener.why = why;
            }
            listeners.hurry(hearing, all);
        }
        drop(keys);
        let mut waiting = lock(&self.waiting);
        *waiting += usize::from(why.wants_the_key());
        *waiting -= usize::from(ear.why.wants_the_key());
    }
}

/// One who listens to a key.
#[derive(Debug)]
pub(super) struct Ear {
    key: Key,
    claim: ClaimId,
    row: watch::Receiver<Last>,
    why: Why,
    changes: Arc<Changes>,
}

impl Ear {
    /// Listens for this reason from now on. Nothing is missed in between.
    pub(super) fn turns_to(&mut self, why: Why) {
        if self.why != why {
            let changes = self.changes.clone();
            changes.turn_to(self, why);
            self.why = why;
        }
    }

    /// Whether this is what was told last.
    pub(super) fn is_last(&self, sight: &Arc<Sight>) -> bool {
        matches!(&*self.row.borrow(), Last::Row(last) if Arc::ptr_eq(last, sight))
    }

    /// The first row that is not of the version `seen`, or `None` where that row was deleted.
    /// Cancel safe. Level-triggered, but for a row that was deleted: that is told once.
    pub(super) async fn other_than(&mut self, seen: Option<i64>) -> Option<Arc<Sight>> {
        loop {
            let is_new = self.row.has_changed().unwrap_or(false);
            let last = self.row.borrow_and_update().clone();
            match last {
                Last::Row(last) if seen.is_none_or(|seen| seen < last.row.version) => {
                    return Some(last);
                }
                Last::Gone if is_new && seen.is_some() => return None,
                _ => {}
            }
            if self.row.changed().await.is_err() {
                // The sender lives for as long as its ears.
                std::future::pending::<()>().await;
            }
            self.row.mark_changed();
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let changes = self.changes.clone();
        changes.forget(self);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::sql::row::Entry;

    const WAITING: Duration = Duration::from_millis(2);
    const HOLDING: Duration = Duration::from_millis(20);

    fn changes() -> (Arc<Changes>, Key) {
        let hearing = Hearing::Looks { waiting: WAITING, holding: HOLDING };
        (Arc::new(Changes::new(hearing)), Key::new("k").unwrap())
    }

    fn claim(bits: u128) -> ClaimId {
        ClaimId::from_bits(bits)
    }

    fn row(version: i64) -> Row {
        Row { version, ..Row::of(&Entry::default(), None, Duration::ZERO) }
    }

    fn tell(changes: &Changes, key: &Key, row: Row) {
        changes.tell(key, Sight { row, now: Duration::ZERO, asked: clock::now() });
    }

    #[tokio::test]
    async fn a_row_is_told_until_it_was_seen_and_an_older_one_never() {
        let (changes, key) = changes();
        let mut ear = changes.listen(&key, claim(1), Why::Waits, true);
        tell(&changes, &key, row(7));
        tell(&changes, &key, row(6));
        tell(&changes, &Key::new("other").unwrap(), row(9));
        for _ in 0..2 {
            assert_eq!(ear.other_than(Some(6)).await.unwrap().row.version, 7);
        }
        assert_eq!(ear.other_than(None).await.unwrap().row.version, 7);
        assert!(ear.other_than(Some(7)).now_or_never().is_none());
        changes.tell_gone(&key);
        assert!(ear.other_than(Some(7)).await.is_none());
        assert!(ear.other_than(Some(7)).now_or_never().is_none());
        tell(&changes, &key, row(3));
        assert_eq!(ear.other_than(None).await.unwrap().row.version, 3);
    }

    #[test]
    fn nothing_is_looked_at_while_nobody_listens() {
        let (changes, key) = changes();
        let now = clock::now();
        let pause = || changes.look_at(now).map(|at| at.duration_since(now));
        assert_eq!(pause(), None);
        let (one, two) = (
            changes.listen(&key, claim(1), Why::Holds, true),
            changes.listen(&key, claim(2), Why::Waits, true),
        );
        assert!(pause().unwrap() <= WAITING * 2);
        drop(two);
        assert!(pause().unwrap() >= HOLDING / 2);
        assert!(changes.hears(&key, claim(1)) && !changes.hears(&key, claim(2)));
        drop(one);
        assert_eq!((pause(), changes.keys()), (None, vec![]));
    }

    #[test]
    fn a_key_is_looked_at_less_often_the_further_back_its_claim_stands() {
        let hearing = Hearing::LooksByPlace { first: WAITING, holding: HOLDING };
        let changes = Arc::new(Changes::new(hearing));
        let names = ["held", "first", "third", "far"];
        let keys = names.map(|name| Key::new(name).unwrap());
        assert_eq!(changes.look_at(clock::now()), None);
        let ears = keys.each_ref().map(|key| {
            let why = if key == &keys[0] { Why::Holds } else { Why::Waits };
            changes.listen(key, claim(777), why, false)
        });
        let waits = |others: u128| {
            let line: String =
                (1..=others).map(|n| format!("{} x 1 1 1 = -\n", claim(n))).collect();
            Row { line: format!("{line}{} x 1 1 1 = -\n", claim(777)), ..row(1) }
        };
        for (key, others) in keys.iter().zip([0, 0, 2, 99]) {
            tell(&changes, key, waits(others));
        }
        let begun = clock::now();
        // All were to be looked at soon, as it was not known where they stand.
        let now = begun.plus(PLACE_MOST * PAUSES_SINCE);
        assert_eq!(changes.due(now).unwrap().len(), 4);
        let at = |key: &Key| lock(&changes.keys)[key].look_at.duration_since(now);
        let within = |pause: Duration, base: Duration| pause >= base / 2 && pause <= base * 3 / 2;
        let bases = [HOLDING, WAITING, PLACE_STEP * 3, PLACE_MOST];
        for (key, base) in keys.iter().zip(bases) {
            assert!(within(at(key), base), "{key}: {:?}", at(key));
        }
        // One that comes to the head looks sooner, and one that falls back does not look later.
        tell(&changes, &keys[3], Row { version: 2, ..waits(0) });
        assert!(at(&keys[3]) <= WAITING * 2);
        drop(ears);
        assert_eq!(changes.look_at(now), None);
    }

    #[test]
    fn a_key_that_is_looked_at_soon_is_not_read_for_one_who_begins_to_wait() {
        let hearing = Hearing::LooksByPlace { first: PLACE_SOON, holding: PLACE_MOST };
        let changes = Arc::new(Changes::new(hearing));
        let key = Key::new("k").unwrap();
        let waits = changes.listen(&key, claim(1), Why::Waits, true);
        assert_eq!(changes.take_unread(), Unread::Nothing);
        assert!(changes.stirred().notified().now_or_never().is_some(), "a look is due sooner");
        assert!(changes.look_at(clock::now()).unwrap() <= clock::now().plus(PLACE_SOON * 3 / 2));
        drop(waits);
        let _holds = changes.listen(&key, claim(1), Why::Holds, true);
        assert_eq!(changes.take_unread(), Unread::Some(HashSet::from([key])));
    }

    #[test]
    fn a_key_that_changes_hands_is_looked_at_soon_and_ever_less_often_from_then_on() {
        let first = Duration::from_millis(30);
        let changes = Arc::new(Changes::new(Hearing::LooksByPlace { first, holding: HOLDING }));
        let key = Key::new("k").unwrap();
        let _ear = changes.listen(&key, claim(777), Why::Waits, false);
        let waits = |others: u128, version: i64| {
            let line: String =
                (1..=others).map(|n| format!("{} x 1 1 1 = -\n", claim(n))).collect();
            let holder = Some(version.to_string());
            Row { line: format!("{line}{} x 1 1 1 = -\n", claim(777)), holder, ..row(version) }
        };
        let paces = |past_ms: &[u64]| {
            let keys = lock(&changes.keys);
            let listeners = &keys[&key];
            let at = |ms: &u64| listeners.changed_hands.plus(Duration::from_millis(*ms));
            let pace = |ms: &u64| listeners.pace(at(ms), first, HOLDING);
            past_ms.iter().map(|ms| pace(ms).as_millis()).collect::<Vec<_>>()
        };
        tell(&changes, &key, waits(0, 1));
        assert_eq!(paces(&[0, 40, 80, 120, 9_000]), [10, 10, 20, 30, 30]);
        tell(&changes, &key, waits(2, 2));
        assert_eq!(paces(&[0, 120, 400, 600, 9_000]), [30, 30, 100, 150, 150]);
        tell(&changes, &key, waits(99, 3));
        assert_eq!(paces(&[0, 9_000]), [500, 500]);
        // A waiter writes its place anew.
        let before = lock(&changes.keys)[&key].changed_hands;
        tell(&changes, &key, Row { version: 4, ..waits(99, 3) });
        assert_eq!(lock(&changes.keys)[&key].changed_hands, before);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn what_others_say_of_a_key_has_its_row_read_if_somebody_listens() {
        let (changes, key) = changes();
        let ear = changes.listen(&key, claim(1), Why::Waits, true);
        assert_eq!(
            changes.take_unread(),
            Unread::Some(HashSet::from([key.clone()])),
            "it has just begun"
        );
        changes.hear_by(Hearing::Told);
        assert_eq!((changes.take_unread(), changes.look_at(clock::now())), (Unread::All, None));
        // A claim that has asked nothing yet has missed nothing.
        drop(changes.listen(&Key::new("other").unwrap(), claim(2), Why::Waits, false));
        changes.unread("other", None);
        assert_eq!(changes.take_unread(), Unread::Nothing);
        changes.unread("k", None);
        changes.unread("k", None);
        assert_eq!(changes.take_unread(), Unread::Some(HashSet::from([key])));
        // The word names the key as rows have it.
        let spaced = Key::new("a b").unwrap();
        let other = changes.listen(&spaced, claim(3), Why::Waits, false);
        changes.unread(spaced.as_str(), None);
        assert_eq!(changes.take_unread(), Unread::Some(HashSet::from([spaced])));
        drop((ear, other));
    }

    /// Who waits behind another is told nothing by whose the key is.
    #[cfg(feature = "postgres")]
    #[test]
    fn a_row_is_read_by_those_whom_its_holder_concerns() {
        let (changes, key) = changes();
        let mut waits = changes.listen(&key, claim(1), Why::Asks, false);
        let reads = |holder: Option<u128>| {
            changes.unread("k", holder.map(claim));
            changes.take_unread() != Unread::Nothing
        };
        assert!(reads(Some(2)), "it may have been granted the key before");
        waits.turns_to(Why::Waits);
        assert!(!reads(Some(2)), "it is another's");
        assert!(reads(Some(1)), "it is granted");
        assert!(reads(None), "it is free, or many hold it");
        for why in [Why::Holds, Why::Follows] {
            let ear = changes.listen(&key, claim(3), why, false);
            assert!(reads(Some(3)) && reads(Some(2)), "{why:?}: it is wanted, or lost");
            drop(ear);
        }
        drop(waits);
        assert!(!reads(None));
    }

    #[tokio::test(start_paused = true)]
    async fn many_keys_that_are_held_are_looked_at_together_and_in_turn() {
        for (held, most, longest) in [(200, 12, HOLDING * 2), (4_000, 60, HOLDING * 32)] {
            let changes =
                Arc::new(Changes::new(Hearing::LooksByPlace { first: WAITING, holding: HOLDING }));
            let keys: Vec<_> = (0..held).map(|n| Key::new(&format!("k{n}")).unwrap()).collect();
            let _ears: Vec<_> =
                keys.iter().map(|key| changes.listen(key, claim(7), Why::Holds, false)).collect();
            let end = clock::now().plus(longest);
            let (mut looks, mut seen) = (0, std::collections::HashSet::new());
            while let Some(at) = changes.look_at(clock::now()).filter(|at| *at <= end) {
                tokio::time::sleep_until(at.into()).await;
                let due = changes.due(clock::now()).unwrap();
                assert!(due.len() <= HELD_AT_PACE, "{} of {held} at once", due.len());
                looks += 1;
                seen.extend(due);
            }
            assert!(looks <= most, "{looks} looks at {held}");
            assert_eq!(seen.len(), held, "not all were looked at");
            // Nothing but these looks tells of another leader, however many keys are held.
            let _ear = changes.listen(&Key::new("led").unwrap(), claim(8), Why::Follows, false);
            let led = lock(&changes.keys)[&Key::new("led").unwrap()].look_at;
            assert!(led <= clock::now().plus(HOLDING * 3 / 2));
        }
    }
}
