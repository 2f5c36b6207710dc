//! What talks to the store for a busy key. It only does I/O: the cohort decides, the driver asks the
//! store and reports.
//!
//! It lives in the key's cell and is no task: whoever waits for the key polls it, and the conductor
//! where nobody does. Requests run to their end whatever becomes of the callers. While one is under
//! way the driver goes on to watch the lease, the waits and the pokes, so a store that hangs holds
//! up nothing that the clock decides.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::cell::{KeyCell, ReleaseReply};
use super::observe::Asked;
use super::{clock, leave};
use crate::backend::{
    Attempt, Change, DynClaim, Fault, FaultKind, Mode, Renewal, Terms, Withdrawal,
};
use crate::proto::{Effects, FAULT_PAUSES, ReleaseAnswer, Step};

/// The most tokens worth reserving at once. They cost nothing, so enough for the longest row of
/// hand-offs between two renewals.
const FENCES: u32 = 1 << 20;

type Claimed = Box<dyn DynClaim>;

/// A request of the open claim.
enum Asking {
    Attempt(Asked<Attempt>),
    Renew(Asked<Renewal>),
}

/// The withdrawal of a claim.
struct Leaving {
    asked: Asked<Withdrawal>,
    reply: Option<ReleaseReply>,
    lease: Duration,
}

/// What the driver waited for.
enum Event {
    Attempted(Claimed, Instant, Result<Attempt, Fault>),
    Renewed(Claimed, Instant, Result<Renewal, Fault>),
    Left(Claimed, Result<Withdrawal, Fault>),
    Changed(Change),
    /// Somebody polled again: something woke the key, or its time has come.
    Polled,
}

struct Driver {
    cell: Arc<KeyCell>,
    /// The open claim, unless a request has it.
    claim: Option<Claimed>,
    asking: Option<Asking>,
    leaving: Option<Leaving>,
    /// The open claim reported a change that no request has answered yet.
    heard: bool,
    done: bool,
}

/// Drives a key, which is entered `now`, until it is idle.
pub(super) fn drive(cell: Arc<KeyCell>, now: Instant) -> impl Future<Output = ()> + Send {
    // Made here, not in the future: that may be dropped before it was polled once. Used where it
    // is, not moved on: each busy key keeps what is moved twice.
    let mut driver =
        Driver { cell, claim: None, asking: None, leaving: None, heard: false, done: false };
    async move { driver.run(now).await }
}

impl Driver {
    /// The clock is read once a poll: nothing in between waits.
    async fn run(&mut self, mut now: Instant) {
        while let Some(listen) = self.turn(now) {
            now = self.wait(listen).await;
        }
        self.done = true;
    }

    /// Does what is to be done now; says whether to listen for a push until the next turn, or
    /// `None` where nothing is left to do.
    fn turn(&mut self, now: Instant) -> Option<bool> {
        loop {
            let mut fx = Effects::none();
            let (asking, leaving) = (self.asking.is_some(), self.leaving.is_some());
            let step = self.cell.cohort().step(now, asking, leaving, &mut fx);
            self.cell.apply_driven(fx);
            match step {
                Step::Open { lease, patient, name, replicas } => {
                    let patience = (!patient).then_some(Duration::ZERO);
                    let (mode, fences) = (Mode::Exclusive, FENCES);
                    let terms = Terms { lease, mode, fences, patience, name, replicas };
                    let id = clock::random_claim_id();
                    self.claim = Some(self.cell.shared.backend.claim(self.cell.key(), id, terms));
                    self.attempt(now);
                }
                Step::Attempt => self.attempt(now),
                Step::Renew if self.cell.shared.conductor.is_here() => self.renew(now),
                // A caller may be blocked in the middle of it, and its runtime with it.
                Step::Renew => {
                    self.cell.shared.conductor.take_on(&self.cell);
                    return Some(false);
                }
                Step::Leave { reply, lease } => self.leave(reply, lease, now),
                Step::Forget => self.claim = None,
                Step::Wait { until, listen } => {
                    self.cell.rests(now, until);
                    return Some(listen || self.cell.is_grown_up());
                }
                Step::Stop => {
                    if self.cell.shared.retire(&self.cell, true) {
                        return None;
                    }
                }
            }
        }
    }

    fn attempt(&mut self, now: Instant) {
        self.heard = false;
        let Some(claim) = self.claim.take() else { return };
        self.asking = Some(Asking::Attempt(Asked::new(self.cell.key(), claim.attempt(), now)));
    }

    fn renew(&mut self, now: Instant) {
        self.heard = false;
        let Some(claim) = self.claim.take() else { return };
        self.asking = Some(Asking::Renew(Asked::new(self.cell.key(), claim.renew(), now)));
    }

    fn leave(&mut self, reply: Option<ReleaseReply>, lease: Duration, now: Instant) {
        self.heard = false;
        let Some(claim) = self.claim.take() else { return };
        let asked = Asked::new(self.cell.key(), claim.withdraw(), now);
        self.leaving = Some(Leaving { asked, reply, lease });
    }

    /// Waits for an answer, for a push if it is to `listen`, or for whoever polls it again; says
    /// when that was.
    async fn wait(&mut self, listen: bool) -> Instant {
        let Self { claim, asking, leaving, heard, .. } = self;
        let listening = listen && asking.is_none() && !*heard;
        let mut changed = claim.as_mut().filter(|_| listening).map(|claim| claim.changed());
        let mut is_polled = false;
        let event = poll_fn(|cx| {
            if let Some(asking) = asking
                && let Poll::Ready(event) = asking.poll(cx)
            {
                return Poll::Ready(event);
            }
            if let Some(Leaving { asked, .. }) = leaving
                && let Poll::Ready((claim, answer)) = Pin::new(asked).poll(cx)
            {
                return Poll::Ready(Event::Left(claim, answer));
            }
            if let Some(changed) = &mut changed
                && let Poll::Ready(change) = changed.as_mut().poll(cx)
            {
                return Poll::Ready(Event::Changed(change));
            }
            if mem::replace(&mut is_polled, true) {
                return Poll::Ready(Event::Polled);
            }
            Poll::Pending
        });
        let event = event.await;
        drop(changed);
        let now = clock::now();
        self.hear(event, now);
        now
    }

    fn hear(&mut self, event: Event, now: Instant) {
        let mut fx = Effects::none();
        match event {
            Event::Attempted(claim, sent, answer) => {
                (self.claim, self.asking) = (Some(claim), None);
                let pause = |failures| FAULT_PAUSES.pause(failures, clock::random_bits());
                self.cell.cohort().attempted(sent, answer, now, pause, &mut fx);
            }
            Event::Renewed(claim, sent, answer) => {
                (self.claim, self.asking) = (Some(claim), None);
                self.cell.cohort().renewed(sent, answer, now, &mut fx);
            }
            Event::Left(claim, answer) => return self.left(claim, answer),
            Event::Changed(change) => {
                self.heard = true;
                self.cell.cohort().changed(change, now);
            }
            Event::Polled => return,
        }
        self.cell.apply_driven(fx);
    }

    fn left(&mut self, claim: Claimed, answer: Result<Withdrawal, Fault>) {
        let Some(Leaving { asked, reply, lease }) = self.leaving.take() else { return };
        let answer = match answer {
            Ok(Withdrawal::Released) => ReleaseAnswer::Released,
            Ok(Withdrawal::NotHeld | Withdrawal::Elsewhere) => ReleaseAnswer::NotHeld,
            Err(fault) if fault.is_transient() => {
                let since = asked.sent();
                return leave::in_background(&self.cell, claim, reply, fault, since, lease);
            }
            Err(fault) => ReleaseAnswer::Unknown(fault),
        };
        if let Some(reply) = reply {
            // The releasing task may be gone; the release is done all the same.
            drop(reply.send(answer));
        }
    }
}

impl Asking {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        Poll::Ready(match self {
            Self::Attempt(asked) => {
                let sent = asked.sent();
                let (claim, answer) = ready!(Pin::new(asked).poll(cx));
                Event::Attempted(claim, sent, answer)
            }
            Self::Renew(asked) => {
                let sent = asked.sent();
                let (claim, answer) = ready!(Pin::new(asked).poll(cx));
                Event::Renewed(claim, sent, answer)
            }
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            let why = "what served this lock is gone: it panicked, or its runtime has ended";
            self.cell.orphaned(Fault::new(FaultKind::Transient, why));
        }
    }
}
