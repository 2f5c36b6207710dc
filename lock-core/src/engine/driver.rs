//! The one task of a busy key. It only does I/O: the cohort decides, the driver asks the store
//! and reports.
//!
//! Requests run to their end whatever becomes of the callers. While one is under way the driver
//! goes on to watch the lease, the waits and the pokes, so a store that hangs holds up nothing
//! that the clock decides.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
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
    // Made here, not in the future: a runtime may drop that before it has polled it once.
    run_driver(Driver { cell, claim: None, asking: None, leaving: None, heard: false, done: false })
}

async fn run_driver(mut driver: Driver) {
    loop {
        let mut fx = Effects::none();
        let (asking, leaving) = (driver.asking.is_some(), driver.leaving.is_some());
        let step = driver.cell.cohort().step(clock::now(), asking, leaving, &mut fx);
        driver.cell.apply(fx);
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
            Step::Renew => driver.renew(),
            Step::Leave { reply, lease } => driver.leave(reply, lease),
            Step::Forget => driver.claim = None,
            Step::Wait(until) => driver.wait(until).await,
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

    async fn wait(&mut self, until: Option<Instant>) {
        let Self { cell, claim, asking, leaving, heard, .. } = self;
        let listening = asking.is_none() && !*heard;
        let timer = async {
            match until {
                Some(at) => clock::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
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
            () = cell.poke.notified() => {}
            () = timer => {}
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
        self.cell.apply(fx);
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

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            let why = "the runtime that served this lock is gone";
            self.cell.orphaned(Fault::new(FaultKind::Transient, why));
        }
    }
}
