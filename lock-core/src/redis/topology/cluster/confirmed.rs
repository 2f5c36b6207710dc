//! The channels of slots at one server, as far as it has confirmed them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::ground::{Plus as _, clock, lock};

/// Channels that nobody needs any more and that are kept for the next who does.
const UNUSED_MAX: usize = 256;

/// A subscription that was not confirmed for so long is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(400);

#[derive(Debug, Default)]
pub(super) struct Confirmed {
    state: Mutex<State>,
    confirmed: Notify,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<u16, Channel>,
    /// Slots that nobody needed at some time, the earliest first.
    unused: VecDeque<u16>,
}

#[derive(Debug)]
struct Channel {
    asked: Instant,
    confirmed: bool,
    /// It is in [`State::unused`].
    queued: bool,
}

impl Channel {
    fn asked_at(asked: Instant) -> Self {
        Self { asked, confirmed: false, queued: false }
    }
}

/// The standing of a channel that somebody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Confirmed,
    /// The server was asked for it, and has not answered yet.
    Asked,
    /// It is to be asked for, now.
    Due,
}

impl Confirmed {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The connection is gone, and all subscriptions with it.
    pub(super) fn forget(&self) {
        *self.state() = State::default();
    }

    /// The channel of a slot is about to be asked for.
    pub(super) fn expect(&self, slot: u16) {
        let channel = Channel::asked_at(clock::now());
        self.state().channels.entry(slot).or_insert(channel);
    }

    /// Somebody needs the channel of a slot.
    pub(super) fn needs(&self, slot: u16) -> Need {
        let now = clock::now();
        let mut state = self.state();
        match state.channels.get_mut(&slot) {
            Some(channel) if channel.confirmed => return Need::Confirmed,
            Some(channel) if now < channel.asked.plus(ASK_AGAIN) => return Need::Asked,
            Some(channel) => channel.asked = now,
            None => drop(state.channels.insert(slot, Channel::asked_at(now))),
        }
        Need::Due
    }

    /// It is listened to.
    pub(super) fn begun(&self, slot: u16) {
        let mut state = self.state();
        let Some(channel) = state.channels.get_mut(&slot) else { return };
        channel.confirmed = true;
        drop(state);
        self.confirmed.notify_waiters();
    }

    pub(super) fn is_on(&self, slot: u16) -> bool {
        self.state().channels.get(&slot).is_some_and(|channel| channel.confirmed)
    }

    /// Waits until it is listened to.
    pub(super) async fn on(&self, slot: u16) {
        loop {
            let confirmed = self.confirmed.notified();
            tokio::pin!(confirmed);
            confirmed.as_mut().enable();
            if self.is_on(slot) {
                return;
            }
            confirmed.await;
        }
    }

    /// It is not listened to any more; whether that was not at our wish.
    pub(super) fn ended(&self, slot: u16) -> bool {
        let mut state = self.state();
        let confirmed = state.channels.get(&slot).is_some_and(|channel| channel.confirmed);
        confirmed && state.channels.remove(&slot).is_some()
    }

    /// Nobody needs the channel for now. `needed` tells which others are needed. Returns those that
    /// are to be left.
    pub(super) fn unused(&self, slot: u16, needed: impl Fn(u16) -> bool) -> Vec<u16> {
        let mut leave = Vec::new();
        let mut state = self.state();
        let state = &mut *state;
        if let Some(channel) = state.channels.get_mut(&slot).filter(|channel| !channel.queued) {
            channel.queued = true;
            state.unused.push_back(slot);
        }
        while state.unused.len() > UNUSED_MAX {
            let Some(slot) = state.unused.pop_front() else { break };
            if needed(slot) {
                if let Some(channel) = state.channels.get_mut(&slot) {
                    channel.queued = false;
                }
            } else if state.channels.remove(&slot).is_some() {
                leave.push(slot);
            }
        }
        leave
    }
}
