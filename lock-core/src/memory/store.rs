//! The keys of a store in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::engine::{clock, wall};
use crate::key::Key;
use crate::proto::{Place, Register, Turn, reserve, ticks};
use crate::token::{FencingToken, TokenBlock};
use crate::view::{Holder, Inspection, Waiter};

use super::member::{Gate, Member};

/// What the store knows of a key, and whom it pokes. One that is idle is not in the map.
pub(super) type Entry = Register<Arc<Notify>>;

#[derive(Debug, Clone)]
pub(super) struct State {
    keys: HashMap<Key, Entry>,
    tokens: Tokens,
    /// What it knows as a member of a quorum.
    pub(super) member: Member,
    /// At how many keys to look for those whose owner is gone.
    sweep_at: usize,
}

/// Below this many keys nothing is swept.
const SWEEP_FROM: usize = 1_024;

/// Where the tokens come from: see [`reserve`].
#[derive(Debug, Clone)]
struct Tokens {
    /// The wall clock when the store was made, in microseconds, and the instant of it.
    epoch_us: u64,
    epoch: Instant,
    /// No key that is not in the map ever had a token above this.
    token_min: u64,
}

/// When a request is served, over which client's gate, and the clock that tokens end at if not this
/// store's.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) tokens_at: Option<u64>,
    pub(super) gate: Gate,
}

impl Tokens {
    fn block(&self, last: Option<u64>, count: u32, at: &Moment) -> TokenBlock {
        let clock = at.tokens_at.unwrap_or_else(|| {
            let since = self.since(at.now).as_micros();
            ticks(self.epoch_us + u64::try_from(since).unwrap_or(0))
        });
        match last {
            None => reserve(None, clock.max(self.token_min + 1), count),
            last => reserve(last, clock, count),
        }
    }

    /// The time of registers.
    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.epoch)
    }
}

/// The keys of a store in this process, who holds each and who waits.
#[derive(Debug)]
pub(super) struct Store {
    state: Mutex<State>,
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
        self.state().keys.len()
    }

    /// Has the register of a key do something, and forgets it if it is idle then.
    pub(super) fn turn<A>(
        &self,
        key: &Key,
        at: &Moment,
        ask: impl FnOnce(&mut Entry, &Turn<'_, Arc<Notify>>) -> A,
    ) -> A {
        let mut state = self.state();
        state.sweep(at.now);
        let may_grant = state.member.serves(&at.gate);
        let State { keys, tokens, .. } = &mut *state;
        let now = tokens.since(at.now);
        let mint = |last, count| tokens.block(last, count, at);
        let wake = |events: &Arc<Notify>| events.notify_one();
        let entry = keys.entry(key.clone()).or_default();
        let answer = ask(entry, &Turn { now, mint: &mint, wake: &wake, may_grant });
        if entry.is_idle(now) {
            state.forget(key);
        }
        answer
    }

    pub(super) fn inspect(&self, key: &Key) -> Inspection {
        let state = self.state();
        let now = state.tokens.since(clock::now());
        let Some(entry) = state.keys.get(key) else { return Inspection::default() };
        let holders = entry.owners(now).map(|owner| {
            let token = owner.tokens.first().map(FencingToken::new);
            let left = owner.until.saturating_sub(now);
            Holder::new(owner.place.claim.to_string(), token, Some(left))
                .with_mode(owner.place.mode)
        });
        let waiter = |place: &Place<_>| Waiter::new(place.claim.to_string()).with_mode(place.mode);
        Inspection::new(holders, entry.line().map(waiter).collect())
    }
}

impl State {
    fn new(tokens: Tokens) -> Self {
        let member = Member::new(tokens.epoch);
        Self { keys: HashMap::new(), tokens, member, sweep_at: SWEEP_FROM }
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

    /// An idle key leaves nothing but the token that the next new key begins above.
    fn forget(&mut self, key: &Key) {
        let Self { keys, tokens, .. } = self;
        let last = keys.remove(key).and_then(|entry| entry.last());
        tokens.token_min = tokens.token_min.max(last.unwrap_or(0));
        if keys.is_empty() {
            keys.shrink_to(64);
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
                tokens.token_min = tokens.token_min.max(entry.last().unwrap_or(0));
            }
            !is_idle
        });
        self.sweep_at = SWEEP_FROM.max(self.keys.len() * 2);
    }
}
