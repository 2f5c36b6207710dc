//! The channels of slots at one server, over a connection of their own: a server that gives a slot
//! away ends the subscriptions to its channels, and the connection would take that for the answer
//! to whatever was asked last.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushInfo, PushKind, Value};
use tokio::sync::{Notify, mpsc};

use super::Cluster;
use super::layout::Addr;
use super::slots;
use crate::engine::clock;
use crate::proto::FAULT_PAUSES;
use crate::redis::link::REQUEST_WITHIN;

/// Channels that nobody needs any more and that are kept for the next who does.
const UNUSED_MAX: usize = 256;

/// A subscription that was not confirmed for so long is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(400);

/// See the module. Subscriptions are sent and not waited for; what the server says of them comes
/// as a push.
#[derive(Debug)]
pub(super) struct Pushes {
    orders: Mutex<mpsc::UnboundedSender<Order>>,
    heard: Arc<Heard>,
    of: Of,
}

/// Whose channels, and where.
#[derive(Debug, Clone)]
struct Of {
    client: Client,
    addr: Addr,
    cluster: Weak<Cluster>,
}

#[derive(Debug, Default)]
struct Heard {
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

#[derive(Debug)]
enum Order {
    Subscribe(u16),
    Unsubscribe(u16),
    /// The connection of this number is gone.
    Broken(u64),
    /// The server did not answer elsewhere: see whether it does here.
    Check,
}

impl Heard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        *self.state() = State::default();
    }
}

impl Pushes {
    /// Starts the task; it ends with this value.
    pub(super) fn start(client: Client, addr: Addr, cluster: Weak<Cluster>) -> Self {
        let (heard, of) = (Arc::new(Heard::default()), Of { client, addr, cluster });
        let orders = Mutex::new(task(&of, &heard));
        Self { orders, heard, of }
    }

    fn order(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(mpsc::error::SendError(order)) = orders.send(order)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            // The runtime that the task was started in is gone; this one lives.
            self.heard.forget();
            *orders = task(&self.of, &self.heard);
            drop(orders.send(order));
        }
    }

    /// Sees to it that the channel of the slot is listened to; whether it is by now.
    pub(super) fn listen(&self, slot: u16) -> bool {
        let now = clock::now();
        let mut state = self.heard.state();
        match state.channels.get_mut(&slot) {
            Some(channel) if channel.confirmed => return true,
            Some(channel) if now < channel.asked + ASK_AGAIN => return false,
            Some(channel) => channel.asked = now,
            None => {
                let channel = Channel { asked: now, confirmed: false, queued: false };
                state.channels.insert(slot, channel);
            }
        }
        drop(state);
        self.order(Order::Subscribe(slot));
        false
    }

    /// Waits until the channel is listened to.
    pub(super) async fn listening(&self, slot: u16) {
        loop {
            let confirmed = self.heard.confirmed.notified();
            tokio::pin!(confirmed);
            confirmed.as_mut().enable();
            if self.heard.state().channels.get(&slot).is_some_and(|channel| channel.confirmed) {
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
            self.order(Order::Unsubscribe(slot));
        }
    }

    pub(super) fn check(&self) {
        self.order(Order::Check);
    }
}

fn task(of: &Of, heard: &Arc<Heard>) -> mpsc::UnboundedSender<Order> {
    let (sender, orders) = mpsc::unbounded_channel();
    let (of, heard, this) = (of.clone(), heard.clone(), sender.downgrade());
    drop(tokio::spawn(Listener { of, heard, this, open: None, connects: 0 }.run(orders)));
    sender
}

/// The task behind it. It ends with the last sender.
struct Listener {
    of: Of,
    heard: Arc<Heard>,
    this: mpsc::WeakUnboundedSender<Order>,
    open: Option<(MultiplexedConnection, u64)>,
    connects: u64,
}

impl Listener {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut failures = 0;
        while let Some(order) = orders.recv().await {
            let done = match order {
                Order::Subscribe(slot) => self.tell("SSUBSCRIBE", slot).await,
                Order::Unsubscribe(slot) if self.open.is_some() => {
                    self.tell("SUNSUBSCRIBE", slot).await
                }
                Order::Unsubscribe(_) => true,
                Order::Check => self.answers().await,
                Order::Broken(number) => self.open.as_ref().is_none_or(|(_, open)| *open != number),
            };
            failures = if done { 0 } else { failures + 1 };
            if !done {
                self.open = None;
                self.heard.forget();
                if self.come_back(failures, &mut orders).await.is_none() {
                    return;
                }
            }
        }
    }

    /// Connects anew and subscribes to what is needed now; `None` if nobody wants it any more.
    async fn come_back(
        &mut self,
        mut failures: u32,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Option<()> {
        loop {
            let needed = self.of.cluster.upgrade()?.needed_at(&self.of.addr);
            if needed.is_empty() {
                return Some(());
            }
            let mut done = true;
            for slot in needed {
                self.expect(slot);
                done = done && self.tell("SSUBSCRIBE", slot).await;
            }
            if done {
                return Some(());
            }
            self.open = None;
            let pause = FAULT_PAUSES.pause(failures, clock::random_bits());
            failures += 1;
            let pause = tokio::time::sleep(pause);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    // All that is needed is asked for when the connection is back.
                    order = orders.recv() => {
                        order?;
                    }
                }
            }
        }
    }

    fn expect(&self, slot: u16) {
        let channel = Channel { asked: clock::now(), confirmed: false, queued: false };
        self.heard.state().channels.entry(slot).or_insert(channel);
    }

    /// Sends a command about a channel; false if the connection is of no use.
    async fn tell(&mut self, verb: &str, slot: u16) -> bool {
        let Some(cluster) = self.of.cluster.upgrade() else { return true };
        let mut command = Cmd::new();
        command.arg(verb).arg(slots::channel(slot, cluster.session()));
        command.set_no_response(true);
        drop(cluster);
        let sending = async {
            let mut connection = self.connection().await?;
            connection.send_packed_command(&command).await.ok()
        };
        tokio::time::timeout(REQUEST_WITHIN, sending).await.is_ok_and(|sent| sent.is_some())
    }

    /// Whether the server answers over this connection.
    async fn answers(&mut self) -> bool {
        let Some((connection, _)) = &mut self.open else { return true };
        let Some(cluster) = self.of.cluster.upgrade() else { return true };
        let mut command = Cmd::new();
        command.arg("SUNSUBSCRIBE").arg(names_no_slot(cluster.session()));
        drop(cluster);
        let answer = connection.send_packed_command(&command);
        match tokio::time::timeout(REQUEST_WITHIN, answer).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => !error.is_unrecoverable_error(),
            Err(_) => false,
        }
    }

    async fn connection(&mut self) -> Option<MultiplexedConnection> {
        if let Some((connection, _)) = &self.open {
            return Some(connection.clone());
        }
        self.connects += 1;
        let number = self.connects;
        let (heard, orders) = (self.heard.clone(), self.this.clone());
        let Of { addr, cluster, .. } = self.of.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(REQUEST_WITHIN))
            .set_response_timeout(None)
            .set_push_sender(move |info: PushInfo| {
                match info.kind {
                    PushKind::Disconnection => {
                        if let Some(orders) = orders.upgrade() {
                            drop(orders.send(Order::Broken(number)));
                        }
                    }
                    PushKind::SSubscribe | PushKind::SUnsubscribe => told(&heard, &info, &cluster),
                    _ => {
                        if let Some(cluster) = cluster.upgrade() {
                            cluster.deliver(&info, &addr);
                        }
                    }
                }
                Ok::<(), std::convert::Infallible>(())
            });
        let connecting = self.of.client.get_multiplexed_async_connection_with_config(&config);
        let connection = connecting.await.ok()?;
        self.open = Some((connection.clone(), number));
        Some(connection)
    }
}

/// The server began, or ended, to push what is sent to a channel. Runs on the task of the
/// connection: short, and without waiting.
fn told(heard: &Heard, info: &PushInfo, cluster: &Weak<Cluster>) {
    let Some(Value::BulkString(channel)) = info.data.first() else { return };
    let Some(slot) = slots::slot_of_channel(channel) else { return };
    let mut state = heard.state();
    if info.kind == PushKind::SSubscribe {
        if let Some(channel) = state.channels.get_mut(&slot) {
            channel.confirmed = true;
            heard.confirmed.notify_waiters();
        }
    } else if state.channels.get(&slot).is_some_and(|channel| channel.confirmed) {
        // Not at our wish: the slot went to another server.
        state.channels.remove(&slot);
        drop(state);
        if let Some(cluster) = cluster.upgrade() {
            cluster.refresh_soon();
        }
    }
}

/// A channel that is listened to by nobody, and of no slot's.
fn names_no_slot(session: &str) -> String {
    format!("lock:push:{session}")
}
