//! The channels of slots at one server, over a connection of their own. A server that gives a slot
//! away ends the subscriptions to its channels. A shared connection would take that for the answer
//! to whatever was asked last.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::Client;
use tokio::sync::{Notify, mpsc};

use super::Cluster;
use super::layout::Addr;
use super::listener::{self, Command, Target};
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock};

/// Channels that nobody needs any more and that are kept for the next who does.
const UNUSED_MAX: usize = 256;

/// A subscription that was not confirmed for so long is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(400);

/// The channels that one node is listened to for. Subscriptions are sent and not waited for; the
/// server's answer to them comes as a push.
#[derive(Debug)]
pub(super) struct Pushes {
    /// Commands to the task, once there is something to listen to.
    commands: Mutex<Option<mpsc::UnboundedSender<Command>>>,
    heard: Arc<Confirmed>,
    target: Target,
    home: Arc<Home>,
}

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

impl Confirmed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is gone, and all subscriptions with it.
    pub(super) fn forget(&self) {
        *self.state() = State::default();
    }

    /// The channel of a slot is about to be asked for.
    pub(super) fn expect(&self, slot: u16) {
        let channel = Channel { asked: clock::now(), confirmed: false, queued: false };
        self.state().channels.entry(slot).or_insert(channel);
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

    /// It is not listened to any more; whether that was not at our wish.
    pub(super) fn ended(&self, slot: u16) -> bool {
        let mut state = self.state();
        let confirmed = state.channels.get(&slot).is_some_and(|channel| channel.confirmed);
        confirmed && state.channels.remove(&slot).is_some()
    }
}

impl Pushes {
    pub(super) fn new(client: Client, addr: Addr, cluster: &Cluster) -> Self {
        let target = Target { client, addr, cluster: cluster.this.clone() };
        let home = cluster.home.clone();
        Self { commands: Mutex::default(), heard: Arc::default(), target, home }
    }

    /// Tells the task, which is started if need be; it ends with this value.
    fn command(&self, mut command: Command) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = &*commands {
            match task.send(command) {
                Ok(()) => return,
                Err(mpsc::error::SendError(unsent)) => command = unsent,
            }
        } else if !matches!(command, Command::Subscribe(_)) {
            return;
        }
        if commands.is_some() {
            // The task has panicked.
            self.heard.forget();
        }
        let task = listener::start(&self.home, &self.target, &self.heard);
        drop(task.send(command));
        *commands = Some(task);
    }

    /// Sees to it that the channel of the slot is listened to; whether it is by now.
    pub(super) fn listen(&self, slot: u16) -> bool {
        let now = clock::now();
        let mut state = self.heard.state();
        match state.channels.get_mut(&slot) {
            Some(channel) if channel.confirmed => return true,
            Some(channel) if now < channel.asked.plus(ASK_AGAIN) => return false,
            Some(channel) => channel.asked = now,
            None => {
                let channel = Channel { asked: now, confirmed: false, queued: false };
                state.channels.insert(slot, channel);
            }
        }
        drop(state);
        self.command(Command::Subscribe(slot));
        false
    }

    /// Waits until the channel is listened to.
    pub(super) async fn listening(&self, slot: u16) {
        loop {
            let confirmed = self.heard.confirmed.notified();
            tokio::pin!(confirmed);
            confirmed.as_mut().enable();
            if self.heard.is_on(slot) {
                return;
            }
            confirmed.await;
        }
    }

    /// Nobody needs the channel for now. `needed` tells which others are needed.
    pub(super) fn unused(&self, slot: u16, needed: impl Fn(u16) -> bool) {
        let mut leave = Vec::new();
        let mut heard = self.heard.state();
        let state = &mut *heard;
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
        drop(heard);
        for slot in leave {
            self.command(Command::Unsubscribe(slot));
        }
    }

    pub(super) fn check(&self) {
        self.command(Command::Check);
    }
}
