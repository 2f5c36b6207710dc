//! The keys of a store in this process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::backend::register::{Place, Register, Turn, age, reserve, ticks};
use crate::backend::{ClaimId, Terms};
use crate::ground::{clock, foreign, wall};
use crate::key::Key;
use crate::token::{FencingToken, TokenBlock};
use crate::view::{Holder, Inspection, KeyList, Leader, Waiter};

use super::member::{Gate, Member};

/// A key as the store knows it. A key that is idle is not in the map.
pub(super) type Entry = Register<With>;

/// Data that the store keeps with a claim.
#[derive(Debug, Clone)]
pub(super) struct With {
    /// Poked when the claim stands elsewhere than it was told.
    pub(super) events: Arc<Notify>,
    /// The value that it publishes, if it stands for election.
    pub(super) value: Option<Arc<str>>,
    /// They say who asks, and what for.
    pub(super) terms: Terms,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    keys: HashMap<Key, Entry>,
    /// Those who are told when the leader of an election changes.
    followers: HashMap<Key, Vec<(ClaimId, Arc<Notify>)>>,
    tokens: Tokens,
    /// The state of the store as a member of a quorum.
    pub(super) member: Member,
    /// The number of keys at which to look for those whose owner is gone.
    sweep_at: usize,
}

/// Below this many keys nothing is swept.
const SWEEP_FROM: usize = 1_024;

/// The source of the tokens: see [`reserve`].
#[derive(Debug, Clone)]
struct Tokens {
    /// The wall clock when the store was made, in microseconds, and the instant of it.
    epoch_us: u64,
    epoch: Instant,
    /// No key that is not in the map ever had a token above this.
    token_min: u64,
}

/// The time at which a request is served, and the client's gate. With them, the clock that tokens
/// end at, if that is not this store's.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) tokens_at: Option<u64>,
    pub(super) gate: Gate,
}

impl Tokens {
    fn block(&self, last: Option<u64>, count: u32, at: &Moment) -> TokenBlock {
        let clock = at.tokens_at.unwrap_or_else(|| self.clock(at.now));
        match last {
            None => reserve(None, clock.max(self.token_min + 1), count),
            last => reserve(last, clock, count),
        }
    }

    /// The wall clock in tokens.
    fn clock(&self, now: Instant) -> u64 {
        ticks(self.epoch_us + u64::try_from(self.since(now).as_micros()).unwrap_or(0))
    }

    /// An idle key leaves nothing but the token that the next new key begins above.
    fn forgets(&mut self, entry: &Entry) {
        self.token_min = self.token_min.max(entry.last().unwrap_or(0));
    }

    /// The time of registers.
    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.epoch)
    }
}

/// The keys of a store in this process, who holds each and who waits.
pub(super) struct Store {
    state: Mutex<State>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // There may be many keys, and who prints a client has not asked for them.
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn new() -> Self {
        let tokens = Tokens { epoch_us: wall::micros(), epoch: clock::now(), token_min: 0 };
        Self { state: Mutex::new(State::new(tokens)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keys(&self) -> usize {
        let State { keys, followers, .. } = &*self.state();
        keys.len() + followers.keys().filter(|key| !keys.contains_key(key)).count()
    }

    /// Has the register of a key do something, and forgets it if it is idle then.
    pub(super) fn turn<A>(
        &self,
        key: &Key,
        at: &Moment,
        ask: impl FnOnce(&mut Entry, &Turn<'_, With>) -> A,
    ) -> A {
        let mut state = self.state();
        state.sweep(at.now);
        let may_grant = state.member.serves(&at.gate);
        let State { keys, tokens, followers, .. } = &mut *state;
        let now = tokens.since(at.now);
        let mint = |last, count| tokens.block(last, count, at);
        // A waker may do anything, so nobody is woken before the mutex is dropped.
        let woken = RefCell::<SmallVec<[Arc<Notify>; 2]>>::default();
        let wake = |with: &With| woken.borrow_mut().push(with.events.clone());
        let mut place = match keys.entry(key.clone()) {
            hash_map::Entry::Occupied(known) => known,
            hash_map::Entry::Vacant(new) => new.insert_entry(Entry::default()),
        };
        let entry = place.get_mut();
        let followers = followers.get(key).map(|followers| (leader(entry, now), followers));
        let answer = ask(entry, &Turn { now, mint: &mint, wake: &wake, may_grant });
        if let Some((before, followers)) = followers
            && leader(entry, now) != before
        {
            woken.borrow_mut().extend(followers.iter().map(|(_, events)| events.clone()));
        }
        if entry.is_idle(now) {
            tokens.forgets(&place.remove());
            shrink(keys);
        }
        drop(state);
        for events in woken.into_inner() {
            foreign::call(|| events.notify_one());
        }
        answer
    }

    /// The leader of the election on a key, and the rest of its lease. `events` are poked from now
    /// on when another leads, or nobody.
    pub(super) fn follow(
        &self,
        key: &Key,
        claim: ClaimId,
        events: &Arc<Notify>,
    ) -> (Option<Leader>, Option<Duration>) {
        let mut state = self.state();
        let followers = state.followers.entry(key.clone()).or_default();
        if followers.iter().all(|(other, _)| *other != claim) {
            followers.push((claim, events.clone()));
        }
        let now = state.tokens.since(clock::now());
        if state.keys.get(key).is_some_and(|entry| entry.is_idle(now)) {
            // The claim of one that died, of whom nobody else may ask.
            state.forget(key);
        }
        let Some(entry) = state.keys.get(key) else { return (None, None) };
        let until = entry.owners(now).map(|owner| owner.until).min();
        (leader(entry, now), until.map(|until| until.saturating_sub(now)))
    }

    /// Ends that.
    pub(super) fn unfollow(&self, key: &Key, claim: ClaimId) {
        let mut state = self.state();
        let Some(followers) = state.followers.get_mut(key) else { return };
        followers.retain(|(other, _)| *other != claim);
        if followers.is_empty() {
            state.followers.remove(key);
        }
    }

    pub(super) fn inspect(&self, key: &Key) -> Inspection {
        let state = self.state();
        let now = clock::now();
        let (clock, now) = (state.tokens.clock(now), state.tokens.since(now));
        let Some(entry) = state.keys.get(key) else { return Inspection::default() };
        let holders = entry.owners(now).map(|owner| {
            let token = owner.tokens.first().map(FencingToken::new);
            let left = owner.until.saturating_sub(now);
            let held_for = owner.first.map(|first| age(first, clock));
            let holder = Holder::new(owner.place.claim.to_string(), token, Some(left));
            Holder { held_for, ..holder }
                .with_mode(owner.place.mode)
                .with_about(owner.place.with.terms.about())
        });
        let waiter = |place: &Place<With>| {
            let about = place.with.terms.about();
            Waiter::new(place.claim.to_string()).with_mode(place.mode).with_about(about)
        };
        Inspection::new(holders, entry.line().map(waiter).collect())
    }

    pub(super) fn list(&self, within: Option<&Key>, max: usize) -> KeyList {
        let state = self.state();
        let now = state.tokens.since(clock::now());
        let busy = state.keys.iter().filter(|(_, entry)| !entry.is_idle(now)).map(|(key, _)| key);
        let busy = busy.filter(|key| within.is_none_or(|within| key.within(within).is_some()));
        KeyList::new(busy.cloned(), max, true)
    }
}

/// The claim that holds the key of an election, and stood for it.
fn leader(entry: &Entry, now: Duration) -> Option<Leader> {
    entry.owners(now).find_map(|owner| {
        let token = owner.first.map(FencingToken::new);
        let value = owner.place.with.value.clone()?;
        Some(Leader::new(value, token, owner.place.claim.to_string()))
    })
}

/// Gives the room of a burst back.
fn shrink(keys: &mut HashMap<Key, Entry>) {
    if keys.is_empty() {
        keys.shrink_to(64);
    }
}

impl State {
    fn new(tokens: Tokens) -> Self {
        let member = Member::new(tokens.epoch);
        Self {
            keys: HashMap::new(),
            followers: HashMap::new(),
            tokens,
            member,
            sweep_at: SWEEP_FROM,
        }
    }

    /// The store's clock.
    pub(super) fn clock(&self, now: Instant) -> Duration {
        Duration::from_micros(self.tokens.epoch_us) + self.tokens.since(now)
    }

    /// No token of any key is greater.
    pub(super) fn highest(&self) -> u64 {
        let lasts = self.keys.values().filter_map(Register::last);
        lasts.max().unwrap_or(0).max(self.tokens.token_min)
    }

    /// Loses everything but the clock.
    #[cfg(feature = "test-util")]
    pub(super) fn clear(&mut self) {
        let member = self.member.clone();
        *self = Self::new(Tokens { token_min: 0, ..self.tokens.clone() });
        self.member = member;
    }

    fn forget(&mut self, key: &Key) {
        let Self { keys, tokens, .. } = self;
        if let Some(entry) = keys.remove(key) {
            tokens.forgets(&entry);
            shrink(keys);
        }
    }

    /// Forgets keys whose owner's lease ended with nobody in line, now and then.
    fn sweep(&mut self, now: Instant) {
        if self.keys.len() < self.sweep_at {
            return;
        }
        let Self { keys, tokens, .. } = self;
        let now = tokens.since(now);
        keys.retain(|_, entry| {
            let is_idle = entry.is_idle(now);
            if is_idle {
                tokens.forgets(entry);
            }
            !is_idle
        });
        self.sweep_at = SWEEP_FROM.max(self.keys.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::backend::{Backend, Claim, ClaimId, Terms};
    use crate::ground::looks::Looks;
    use crate::memory::Memory;

    /// A waker may drop a guard or a claim of the same store, which takes this mutex.
    #[tokio::test]
    async fn whoever_is_woken_finds_no_mutex_held() -> Result<(), Box<dyn std::error::Error>> {
        let (memory, key) = (Memory::new(), Key::new("k")?);
        let store = memory.store.clone();
        let looks = Looks::new(move || store.state.try_lock().is_ok());
        let waker = Waker::from(looks.clone());
        let mut cx = Context::from_waker(&waker);
        let terms = Terms::exclusive(Duration::from_secs(1));
        let mut leader = memory.candidate(&key, ClaimId::from_bits(1), terms, &"a".into());
        let mut waiter = memory.claim(&key, ClaimId::from_bits(2), terms);
        let mut follower = memory.follow(&key, terms.lease);
        leader.attempt().await?;
        waiter.attempt().await?;
        follower.leader().await?;
        let (mut waits, mut follows) = (pin!(waiter.changed()), follower.changed());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert!(follows.as_mut().poll(&mut cx).is_pending());
        leader.withdraw().await?;
        assert_eq!(looks.found(), [true; 2]);
        Ok(())
    }
}
