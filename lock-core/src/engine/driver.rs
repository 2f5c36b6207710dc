//! What talks to the store for a busy key. It only does I/O: the cohort decides, the driver asks the
//! store and reports.
//!
//! It lives in the key's cell and is no task: whoever waits for the key polls it, and the conductor
//! where nobody does. Requests run to their end whatever becomes of the callers. While one is under
//! way the driver goes on to watch the lease, the waits and the pokes, so a store that hangs holds
//! up nothing that the clock decides.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::cell::{KeyCell, ReleaseReply};
use super::{clock, leave, observe};
use crate::backend::{Attempt, DynClaim, Fault, FaultKind, Mode, Renewal, Terms, Withdrawal};
use crate::proto::{Effects, FAULT_PAUSES, ReleaseAnswer, Step};

/// The most tokens worth reserving at once. They cost nothing, so enough for the longest row of
/// hand-offs between two renewals.
pub(crate) const FENCES: u32 = 1 << 20;

type Claimed = Box<dyn DynClaim>;
type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Answer {
    Attempt(Result<Attempt, Fault>),
    Renew(Result<Renewal, Fault>),
}

struct Left {
    claim: Claimed,
    answer: Result<Withdrawal, Fault>,
    reply: Option<ReleaseReply>,
    lease: std::time::Duration,
    since: Instant,
}

struct Driver {
    cell: Arc<KeyCell>,
    /// The open claim, unless a request has it.
    claim: Option<Claimed>,
    asking: Option<Running<(Claimed, Instant, Answer)>>,
    leaving: Option<Running<Left>>,
    /// The open claim reported a change that no request has answered yet.
    heard: bool,
    done: bool,
}

/// Drives a key until it is idle.
pub(super) fn drive(cell: Arc<KeyCell>) -> impl Future<Output = ()> + Send {
    // Made here, not in the future: that may be dropped before it was polled once.
    run_driver(Driver { cell, claim: None, asking: None, leaving: None, heard: false, done: false })
}

async fn run_driver(mut driver: Driver) {
    loop {
        let mut fx = Effects::none();
        let (asking, leaving) = (driver.asking.is_some(), driver.leaving.is_some());
        let now = clock::now();
        let step = driver.cell.cohort().step(now, asking, leaving, &mut fx);
        driver.cell.apply_driven(fx);
        match step {
            Step::Open { lease, patient, name, replicas } => {
                let patience = (!patient).then_some(std::time::Duration::ZERO);
                let (mode, fences) = (Mode::Exclusive, FENCES);
                let terms = Terms { lease, mode, fences, patience, name, replicas };
                let id = clock::random_claim_id();
                driver.claim = Some(driver.cell.shared.backend.claim(driver.cell.key(), id, terms));
                driver.attempt();
            }
            Step::Attempt => driver.attempt(),
            Step::Renew if driver.cell.shared.conductor.is_here() => driver.renew(),
            // A caller may be blocked in the middle of it, and its runtime with it.
            Step::Renew => {
                driver.cell.shared.conductor.take_on(&driver.cell);
                driver.wait(false).await;
            }
            Step::Leave { reply, lease } => driver.leave(reply, lease),
            Step::Forget => driver.claim = None,
            Step::Wait { until, listen } => {
                driver.cell.rests(now, until);
                driver.wait(listen).await;
            }
            Step::Stop => {
                if driver.cell.shared.retire(&driver.cell, true) {
                    driver.done = true;
                    return;
                }
            }
        }
    }
}

impl Driver {
    fn attempt(&mut self) {
        self.heard = false;
        let Some(mut claim) = self.claim.take() else { return };
        let span = observe::request::<Attempt>(self.cell.key());
        self.asking = Some(Box::pin(async move {
            let sent = clock::now();
            let answer = observe::asked(span, sent, claim.attempt()).await;
            (claim, sent, Answer::Attempt(answer))
        }));
    }

    fn renew(&mut self) {
        self.heard = false;
        let Some(mut claim) = self.claim.take() else { return };
        let span = observe::request::<Renewal>(self.cell.key());
        self.asking = Some(Box::pin(async move {
            let sent = clock::now();
            let answer = observe::asked(span, sent, claim.renew()).await;
            (claim, sent, Answer::Renew(answer))
        }));
    }

    fn leave(&mut self, reply: Option<ReleaseReply>, lease: std::time::Duration) {
        self.heard = false;
        let Some(mut claim) = self.claim.take() else { return };
        let span = observe::request::<Withdrawal>(self.cell.key());
        self.leaving = Some(Box::pin(async move {
            let since = clock::now();
            let answer = observe::asked(span, since, claim.withdraw()).await;
            Left { claim, answer, reply, lease, since }
        }));
    }

    /// Waits for an answer, for a push if it is to `listen`, or for whoever polls it again.
    async fn wait(&mut self, listen: bool) {
        let Self { cell, claim, asking, leaving, heard, .. } = self;
        let listening = listen && asking.is_none() && !*heard;
        let changed = async {
            match claim {
                Some(claim) if listening => claim.changed().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            (claim, sent, answer) = run(asking) => self.answered(claim, sent, answer),
            left = run(leaving) => self.left(left),
            change = changed => {
                *heard = true;
                cell.cohort().changed(change, clock::now());
            }
            () = polled_again() => {}
        }
    }

    fn answered(&mut self, claim: Claimed, sent: Instant, answer: Answer) {
        self.claim = Some(claim);
        let mut fx = Effects::none();
        let now = clock::now();
        let pause = |failures| FAULT_PAUSES.pause(failures, clock::random_bits());
        let mut cohort = self.cell.cohort();
        match answer {
            Answer::Attempt(answer) => cohort.attempted(sent, answer, now, pause, &mut fx),
            Answer::Renew(answer) => cohort.renewed(sent, answer, now, &mut fx),
        }
        drop(cohort);
        self.cell.apply_driven(fx);
    }

    fn left(&mut self, left: Left) {
        let Left { claim, answer, reply, lease, since } = left;
        let answer = match answer {
            Ok(Withdrawal::Released) => ReleaseAnswer::Released,
            Ok(Withdrawal::NotHeld | Withdrawal::Elsewhere) => ReleaseAnswer::NotHeld,
            Err(fault) if fault.is_transient() => {
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

/// Runs what is there, to its end; pending if there is nothing. Cancel safe.
async fn run<T>(slot: &mut Option<Running<T>>) -> T {
    match slot {
        Some(running) => {
            let output = running.await;
            *slot = None;
            output
        }
        None => std::future::pending().await,
    }
}

/// Resolves at its second poll: something woke the key, or its time has come.
async fn polled_again() {
    let mut polled = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            let why = "what served this lock is gone: it panicked, or its runtime has ended";
            self.cell.orphaned(Fault::new(FaultKind::Transient, why));
        }
    }
}
