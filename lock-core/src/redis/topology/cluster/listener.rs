//! The task that has the connection for pushes of one server.

use std::sync::{Arc, Weak};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushInfo, PushKind, Value};
use tokio::sync::mpsc;

use super::Cluster;
use super::confirmed::Confirmed;
use super::layout::Addr;
use crate::backend::io::Home;
use crate::ground::{FAULT_PAUSES, clock, timeout};
use crate::redis::protocol::{names, slots};
use crate::redis::wire::hello;
use crate::redis::wire::request::REQUEST_WITHIN;

/// The server whose channels are listened to, and its cluster.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) addr: Addr,
    pub(super) cluster: Weak<Cluster>,
}

#[derive(Debug)]
pub(super) enum Command {
    Subscribe(u16),
    Unsubscribe(u16),
    /// The connection of this number is gone.
    Broken(u64),
    /// See whether the server answers here: it did not elsewhere, or nothing was heard for long.
    Check,
}

/// Starts it; it ends with the last sender.
pub(super) fn start(
    home: &Home,
    target: &Target,
    heard: &Arc<Confirmed>,
) -> mpsc::UnboundedSender<Command> {
    let (sender, commands) = mpsc::unbounded_channel();
    let (target, heard, this) = (target.clone(), heard.clone(), sender.downgrade());
    drop(home.spawn(Listener { target, heard, this, open: None, connects: 0 }.run(commands)));
    sender
}

struct Listener {
    target: Target,
    heard: Arc<Confirmed>,
    this: mpsc::WeakUnboundedSender<Command>,
    open: Option<(MultiplexedConnection, u64)>,
    connects: u64,
}

impl Listener {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut failures = 0;
        while let Some(command) = commands.recv().await {
            let done = match command {
                Command::Subscribe(slot) => self.tell("SSUBSCRIBE", slot).await,
                Command::Unsubscribe(slot) if self.open.is_some() => {
                    self.tell("SUNSUBSCRIBE", slot).await
                }
                Command::Unsubscribe(_) => true,
                Command::Check => self.answers().await,
                Command::Broken(number) => {
                    self.open.as_ref().is_none_or(|(_, open)| *open != number)
                }
            };
            failures = if done { 0 } else { failures + 1 };
            if !done {
                self.open = None;
                self.heard.forget();
                if self.come_back(failures, &mut commands).await.is_none() {
                    return;
                }
            }
        }
    }

    /// Connects anew and subscribes to what is needed now; `None` if nobody wants it any more.
    async fn come_back(
        &mut self,
        mut failures: u32,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Option<()> {
        loop {
            let needed = self.target.cluster.upgrade()?.needed_at(&self.target.addr);
            if needed.is_empty() {
                return Some(());
            }
            let mut done = true;
            for slot in &needed {
                self.expect(*slot);
                done = done && self.tell("SSUBSCRIBE", *slot).await;
            }
            if done && self.serves(needed[0]).await {
                self.target.cluster.upgrade()?.is_back(&needed);
                return Some(());
            }
            self.open = None;
            // Some were confirmed before it broke, and may be needed no more when it is back.
            self.heard.forget();
            let pause = FAULT_PAUSES.pause(failures, clock::random_bits());
            failures += 1;
            let pause = clock::alarm_in(pause);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    // All that is needed is asked for when the connection is back.
                    command = commands.recv() => {
                        command?;
                    }
                }
            }
        }
    }

    fn expect(&self, slot: u16) {
        self.heard.expect(slot);
    }

    /// Sends a command about a channel; false if the connection is of no use.
    async fn tell(&mut self, verb: &str, slot: u16) -> bool {
        let Some(cluster) = self.target.cluster.upgrade() else { return true };
        let mut command = Cmd::new();
        command.arg(verb).arg(slots::channel(slot, &cluster.session.id));
        command.set_no_response(true);
        drop(cluster);
        let sending = async {
            let mut connection = self.connection().await?;
            connection.send_packed_command(&command).await.ok()
        };
        timeout::within(REQUEST_WITHIN, sending).await.is_ok_and(|sent| sent.is_some())
    }

    /// Whether the server, which is back, serves what claims of this slot ask it for.
    async fn serves(&mut self, slot: u16) -> bool {
        let key = names::clock(slots::tag_of(slot));
        let asking = async {
            let mut connection = self.connection().await?;
            hello::serves(&mut connection, &key).await.ok()
        };
        timeout::within(REQUEST_WITHIN, asking).await.is_ok_and(|served| served.is_some())
    }

    /// Whether the server answers over this connection.
    async fn answers(&mut self) -> bool {
        let Some((connection, _)) = &mut self.open else { return true };
        let Some(cluster) = self.target.cluster.upgrade() else { return true };
        let mut command = Cmd::new();
        command.arg("SUNSUBSCRIBE").arg(names_no_slot(&cluster.session.id));
        drop(cluster);
        let answer = connection.send_packed_command(&command);
        match timeout::within(REQUEST_WITHIN, answer).await {
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
        let (heard, commands) = (self.heard.clone(), self.this.clone());
        let Target { addr, cluster, .. } = self.target.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(REQUEST_WITHIN))
            .set_response_timeout(None)
            .set_push_sender(move |info: PushInfo| {
                match info.kind {
                    PushKind::Disconnection => {
                        if let Some(commands) = commands.upgrade() {
                            drop(commands.send(Command::Broken(number)));
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
        let connecting = self.target.client.get_multiplexed_async_connection_with_config(&config);
        let connection = connecting.await.ok()?;
        self.open = Some((connection.clone(), number));
        Some(connection)
    }
}

/// The server began, or ended, to push what is sent to a channel. Runs on the task of the
/// connection: short, and without waiting.
fn told(heard: &Confirmed, info: &PushInfo, cluster: &Weak<Cluster>) {
    let Some(Value::BulkString(channel)) = info.data.first() else { return };
    let Some(slot) = slots::slot_of_channel(channel) else { return };
    if info.kind == PushKind::SSubscribe {
        heard.begun(slot);
    } else if heard.ended(slot)
        && let Some(cluster) = cluster.upgrade()
    {
        // Not at our wish: the slot went to another server.
        cluster.refresh_soon();
    }
}

/// A channel that is listened to by nobody, and of no slot's.
fn names_no_slot(session: &str) -> String {
    format!("lock:push:{session}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::super::layout;
    use super::*;
    use crate::redis::wire::fake;

    #[tokio::test]
    async fn what_was_confirmed_over_a_connection_that_broke_is_forgotten_before_the_next() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let target = super::super::Target::at(closed.port());
        let addr = target.seeds[0].clone();
        let client = target.access.client(&addr.host()).unwrap();
        let cluster = Cluster::at_nobody(target);
        let nodes = format!("a {closed}@1 master - 0 0 1 connected 0-16383");
        cluster.state().table.learn(&layout::parse(&nodes, &addr, false).unwrap());
        cluster.needed().insert(5, vec![crate::backend::ClaimId::from_bits(1)]);
        let heard = Arc::new(Confirmed::default());
        heard.expect(5);
        heard.begun(5);
        let (sender, mut commands) = mpsc::unbounded_channel();
        let target = Target { client, addr, cluster: Arc::downgrade(&cluster) };
        let this = sender.downgrade();
        let mut listener = Listener { target, heard: heard.clone(), this, open: None, connects: 0 };
        let coming_back = listener.come_back(1, &mut commands);
        let forgotten = async {
            while heard.is_on(5) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = coming_back => panic!("nobody is there"),
            () = forgotten => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => panic!("it is believed on"),
        }
    }

    /// A node that was started anew reads its data first, and refuses what claims ask meanwhile. They
    /// are told once that it is back, and so not before it serves them.
    #[tokio::test]
    async fn a_node_that_reads_its_data_is_not_back() {
        let (asked, refused) = (Arc::new(AtomicU64::new(0)), 3);
        let counted = asked.clone();
        let port = fake::start(move |words| match words {
            ["SSUBSCRIBE", channel] => {
                let bytes = channel.len();
                Some(format!(">3\r\n$10\r\nssubscribe\r\n${bytes}\r\n{channel}\r\n:1\r\n"))
            }
            ["GET", _] => Some(match counted.fetch_add(1, Ordering::SeqCst) {
                0 => "-LOADING Redis is loading the dataset in memory\r\n".into(),
                asked if asked < refused => "-CLUSTERDOWN The cluster is down\r\n".into(),
                _ => "$-1\r\n".into(),
            }),
            _ => Some("+OK\r\n".into()),
        });
        let target = super::super::Target::at(port);
        let addr = target.seeds[0].clone();
        let client = target.access.client(&addr.host()).unwrap();
        let cluster = Cluster::at_nobody(target);
        let nodes = format!("a 127.0.0.1:{port}@1 master - 0 0 1 connected 0-16383");
        cluster.state().table.learn(&layout::parse(&nodes, &addr, false).unwrap());
        let claim = crate::backend::ClaimId::from_bits(1);
        let inbox = cluster.session.inboxes.open(claim);
        cluster.needed().insert(5, vec![claim]);
        let (sender, mut commands) = mpsc::unbounded_channel();
        let target = Target { client, addr, cluster: Arc::downgrade(&cluster) };
        let (heard, this) = (Arc::new(Confirmed::default()), sender.downgrade());
        let mut listener = Listener { target, heard, this, open: None, connects: 0 };
        listener.come_back(1, &mut commands).await.expect("somebody listens");
        let told = tokio::time::timeout(Duration::from_secs(20), inbox.changed(true));
        told.await.expect("it is back");
        assert!(asked.load(Ordering::SeqCst) > refused, "it was told too early");
    }
}
