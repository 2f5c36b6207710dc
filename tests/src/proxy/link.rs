//! One connection: passing frames on in both directions, with the faults that the test set.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::control::{Control, Direction, Flow, Shared};
use super::frames::Frame;
use super::protocol::{Event, Protocol, Request};
use super::trap::{Action, Slot};

/// Why a connection ends.
pub(super) enum End {
    Closed,
    Reset,
    /// For the client; this is still to reach the server.
    Orphan(Vec<u8>, Arc<Slot>),
}

/// The state that the two directions of one connection share.
pub(super) struct Link<'a> {
    pub(super) protocol: &'static dyn Protocol,
    pub(super) shared: &'a Shared,
    /// The tickets that the server has yet to answer, each with its trap.
    unanswered: Mutex<VecDeque<(i32, Option<Arc<Slot>>)>>,
    subscribed: AtomicBool,
    /// The silences before it was made, which are none of its own.
    silences: u64,
}

impl<'a> Link<'a> {
    pub(super) fn new(
        protocol: &'static dyn Protocol,
        shared: &'a Shared,
        before: &Control,
    ) -> Self {
        let (unanswered, subscribed) = (Mutex::default(), AtomicBool::new(false));
        Link { protocol, shared, unanswered, subscribed, silences: before.silences }
    }

    /// How this direction of this connection flows.
    fn flow(&self, control: &Control, direction: Direction) -> Flow {
        if control.silences > self.silences {
            return Flow::BlackHole;
        }
        control.flow(direction)
    }

    pub(super) async fn pass_requests<W: AsyncWrite + Unpin>(
        &self,
        mut requests: mpsc::Receiver<Frame>,
        mut server: W,
    ) -> End {
        while let Some(frame) = requests.recv().await {
            let request = self.protocol.request(&frame.bytes);
            let trap = self.shared.spring(&request);
            self.shared.count(|counters| match request.is_ping() {
                true => counters.pings += 1,
                false => counters.requests += 1,
            });
            if let Some(slot) = &trap {
                match slot.action {
                    Action::HoldRequest if self.sprung(slot) => slot.wait_for_release().await,
                    Action::OrphanRequest if self.sprung(slot) => {
                        return End::Orphan(frame.bytes, slot.clone());
                    }
                    Action::DropRequest if self.sprung(slot) => return End::Closed,
                    _ => {}
                }
            }
            self.gate(Direction::ToServer, &frame).await;
            self.asked(&request, trap);
            if server.write_all(&frame.bytes).await.is_err() {
                return End::Closed;
            }
        }
        self.gate_end(Direction::ToServer).await
    }

    pub(super) async fn pass_replies<W: AsyncWrite + Unpin>(
        &self,
        mut replies: mpsc::Receiver<Frame>,
        mut client: W,
    ) -> End {
        while let Some(frame) = replies.recv().await {
            let said = self.protocol.said(&frame.bytes, self.subscribed.load(Ordering::Relaxed));
            match said {
                Event::Push { message } => {
                    let lost = message && self.shared.control.borrow().drop_pushes;
                    self.shared.count(|counters| {
                        counters.pushes += 1;
                        counters.pushes_dropped += u64::from(lost);
                    });
                    if lost {
                        continue;
                    }
                }
                Event::Part => {}
                Event::Reply { ticket } => {
                    self.shared.count(|counters| counters.replies += u64::from(!said.is_pong()));
                    if let Some(slot) = self.answered(ticket) {
                        match slot.action {
                            Action::HoldReply if self.sprung(&slot) => {
                                slot.wait_for_release().await;
                            }
                            Action::SwallowReply if self.sprung(&slot) => return End::Closed,
                            _ => {}
                        }
                    }
                }
            }
            self.gate(Direction::ToClient, &frame).await;
            let bytes = self.shared.with_names(frame.bytes);
            if client.write_all(&bytes).await.is_err() {
                return End::Closed;
            }
        }
        self.gate_end(Direction::ToClient).await
    }

    /// Keeps in mind what the server is about to be asked.
    fn asked(&self, request: &Request<'_>, trap: Option<Arc<Slot>>) {
        if request.subscribes {
            self.subscribed.store(true, Ordering::Relaxed);
        }
        if let Some(ticket) = request.ticket {
            self.unanswered.lock().expect("no pump panicked").push_back((ticket, trap));
        }
    }

    /// The trap of the request that is answered now.
    fn answered(&self, ticket: i32) -> Option<Arc<Slot>> {
        let mut unanswered = self.unanswered.lock().expect("no pump panicked");
        let at = unanswered.iter().position(|(asked, _)| *asked == ticket)?;
        unanswered.remove(at)?.1
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
            let flow = self.flow(&control.borrow_and_update(), direction);
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
        let _ = control.wait_for(|now| self.flow(now, direction) != Flow::BlackHole).await;
        End::Closed
    }
}
