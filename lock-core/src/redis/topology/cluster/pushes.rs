//! The channels of slots at one server, over a connection of their own. A server that gives a slot
//! away ends the subscriptions to its channels. A shared connection would take that for the answer
//! to whatever was asked last.

use std::sync::{Arc, Mutex};

use redis::Client;
use tokio::sync::mpsc;

use super::Cluster;
use super::confirmed::{Confirmed, Need};
use super::layout::Addr;
use super::listener::{self, Command, Target};
use crate::backend::io::Home;
use crate::ground::lock;

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

impl Pushes {
    pub(super) fn new(client: Client, addr: Addr, cluster: &Cluster) -> Self {
        let target = Target { client, addr, cluster: cluster.this.clone() };
        let home = cluster.home.clone();
        Self { commands: Mutex::default(), heard: Arc::default(), target, home }
    }

    /// Tells the task, which is started if need be; it ends with this value.
    fn command(&self, mut command: Command) {
        let mut commands = lock(&self.commands);
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
        let need = self.heard.needs(slot);
        if need == Need::Due {
            self.command(Command::Subscribe(slot));
        }
        need == Need::Confirmed
    }

    /// Waits until the channel is listened to.
    pub(super) async fn listening(&self, slot: u16) {
        self.heard.on(slot).await;
    }

    /// Nobody needs the channel for now. `needed` tells which others are needed.
    pub(super) fn unused(&self, slot: u16, needed: impl Fn(u16) -> bool) {
        for slot in self.heard.unused(slot, needed) {
            self.command(Command::Unsubscribe(slot));
        }
    }

    pub(super) fn check(&self) {
        self.command(Command::Check);
    }
}
