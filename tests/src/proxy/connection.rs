//! The proxy's thread: accepting, pumping, ending.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use super::control::{Control, Direction, Flow, Shared};
use super::frames::{Frame, read_frames};
use super::resp::{is_message, is_push, is_subscription, verb_of};
use super::trap::{Action, Slot};

/// Frames on their way in one direction.
const IN_FLIGHT_MAX: usize = 4096;

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

/// Serves until the control says stop.
pub(super) fn run(listener: std::net::TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        listener.set_nonblocking(true).expect("a socket that can poll");
        let listener = TcpListener::from_std(listener).expect("a runtime with I/O");
        let mut control = shared.control.subscribe();
        tokio::select! {
            () = accept(&listener, target, shared) => {}
            _ = control.wait_for(|control| control.stopped) => {}
        }
        // Dropping the runtime drops every connection's task.
    });
}

async fn accept(listener: &TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if shared.control.borrow().refusing {
            let _ = client.set_zero_linger();
            continue;
        }
        // Read before the connection is counted, so that a cut right after the count is seen.
        let before = *shared.control.borrow();
        shared.count(|counters| {
            counters.connections += 1;
            counters.open += 1;
        });
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            serve(client, target, before, &shared).await;
            shared.count(|counters| counters.open -= 1);
        });
    }
}

/// One client's connection from its start to its end.
async fn serve(mut client: TcpStream, target: SocketAddr, before: Control, shared: &Shared) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let link = Link::new(shared);
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (up, requests) = mpsc::channel(IN_FLIGHT_MAX);
        let (down, replies) = mpsc::channel(IN_FLIGHT_MAX);
        let read_up = |n: usize| shared.count(|c| c.bytes_to_server += n as u64);
        let read_down = |n: usize| shared.count(|c| c.bytes_to_client += n as u64);
        tokio::select! {
            end = ended(before, shared.control.subscribe()) => end,
            end = link.pass_requests(requests, to_server) => end,
            end = link.pass_replies(replies, to_client) => end,
            never = forever(read_frames(from_client, up, read_up)) => never,
            never = forever(read_frames(from_server, down, read_down)) => never,
        }
    };
    if end == End::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    } else {
        let _ = (client.shutdown().await, server.shutdown().await);
    }
}

/// A reader's end shows at its writer, once that has passed on what came before.
async fn forever(reader: impl Future<Output = ()>) -> End {
    reader.await;
    pending().await
}

/// Resolves when the test cuts or resets, counted from when the connection was accepted.
async fn ended(before: Control, mut control: watch::Receiver<Control>) -> End {
    let (cuts, resets) = (before.cuts, before.resets);
    match control.wait_for(|now| now.cuts > cuts || now.resets > resets).await {
        Ok(now) if now.resets > resets => End::Reset,
        _ => End::Closed,
    }
}

/// What the two directions of one connection know of each other.
struct Link<'a> {
    shared: &'a Shared,
    /// The requests that the server has yet to answer, each with its trap.
    unanswered: Mutex<VecDeque<Option<Arc<Slot>>>>,
    subscribed: AtomicBool,
}

impl<'a> Link<'a> {
    fn new(shared: &'a Shared) -> Self {
        let unanswered = Mutex::new(VecDeque::new());
        Link { shared, unanswered, subscribed: AtomicBool::new(false) }
    }

    async fn pass_requests<W: AsyncWrite + Unpin>(
        &self,
        mut requests: mpsc::Receiver<Frame>,
        mut server: W,
    ) -> End {
        while let Some(frame) = requests.recv().await {
            let trap = self.shared.spring(&frame.bytes);
            self.shared.count(|counters| counters.requests += 1);
            if let Some(slot) = &trap {
                match slot.action {
                    Action::HoldRequest if self.sprung(slot) => slot.wait_for_release().await,
                    Action::DropRequest if self.sprung(slot) => return End::Closed,
                    _ => {}
                }
            }
            self.gate(Direction::ToServer, &frame).await;
            if is_subscription(&verb_of(&frame.bytes)) {
                self.subscribed.store(true, Ordering::Relaxed);
            } else {
                self.unanswered.lock().expect("no pump panicked").push_back(trap);
            }
            if server.write_all(&frame.bytes).await.is_err() {
                return End::Closed;
            }
        }
        self.gate_end(Direction::ToServer).await
    }

    async fn pass_replies<W: AsyncWrite + Unpin>(
        &self,
        mut replies: mpsc::Receiver<Frame>,
        mut client: W,
    ) -> End {
        while let Some(frame) = replies.recv().await {
            if is_push(&frame.bytes, self.subscribed.load(Ordering::Relaxed)) {
                let lost = is_message(&frame.bytes) && self.shared.control.borrow().drop_pushes;
                self.shared.count(|counters| {
                    counters.pushes += 1;
                    counters.pushes_dropped += u64::from(lost);
                });
                if lost {
                    continue;
                }
            } else {
                self.shared.count(|counters| counters.replies += 1);
                let answered = self.unanswered.lock().expect("no pump panicked").pop_front();
                if let Some(slot) = answered.flatten() {
                    match slot.action {
                        Action::HoldReply if self.sprung(&slot) => slot.wait_for_release().await,
                        Action::SwallowReply if self.sprung(&slot) => return End::Closed,
                        _ => {}
                    }
                }
            }
            self.gate(Direction::ToClient, &frame).await;
            if client.write_all(&frame.bytes).await.is_err() {
                return End::Closed;
            }
        }
        self.gate_end(Direction::ToClient).await
    }

    /// Tells the test that its trap has sprung; false if the test has dropped it.
    fn sprung(&self, slot: &Slot) -> bool {
        let live = slot.spring();
        if live {
            self.shared.count(|counters| counters.sprung += 1);
        }
        live
    }

    /// Keeps a frame for as long as its direction says.
    async fn gate(&self, direction: Direction, frame: &Frame) {
        let mut control = self.shared.control.subscribe();
        loop {
            let flow = control.borrow_and_update().flow(direction);
            match flow {
                Flow::Pass => return,
                Flow::Delay(delay) => tokio::select! {
                    () = sleep_until((frame.at + delay).into()) => return,
                    _ = control.changed() => {}
                },
                Flow::BlackHole => {
                    let _ = control.changed().await;
                }
            }
        }
    }

    /// The end of a stream passes unless the direction is a black hole.
    async fn gate_end(&self, direction: Direction) -> End {
        let mut control = self.shared.control.subscribe();
        let _ = control.wait_for(|now| now.flow(direction) != Flow::BlackHole).await;
        End::Closed
    }
}
