//! The one task of an execution: it claims the record, holds the lock while the execution runs,
//! writes the outcome, and then lets go of the lock.
//!
//! Requests run to their end whatever becomes of the caller, and dropping an
//! [`Execution`](super::Execution) needs no more than a word to this task.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::begun::Begun;
use super::error::BeginError;
use super::execution::{Execution, Finish, tell};
use super::observe::Run;
use super::options::Options;
use super::repeat::{Repeat, STORE_WITHIN};
use super::service::Service;
use super::single_flight::{End, LeadInHand};
#[cfg(feature = "sql")]
use super::written::Destination;
use crate::backend::Fault;
use crate::engine::LockGuard;
use crate::records::{ClaimRecord, Claimed, Fingerprint, OnUnknown, RecordId, RecordStore};
use crate::token::FencingToken;

/// The sender of the answer that the caller of `begin` waits for.
pub(super) type Answer = oneshot::Sender<Result<Begun, BeginError>>;

/// How soon a record is extended again after a fault, at most.
const EXTEND_SOON: Duration = Duration::from_secs(1);

/// The task of one execution. Its lock is dropped before the lead, so that who leads next finds it
/// free.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) shared: Arc<Service>,
    pub(super) options: Options,
    pub(super) id: RecordId,
    pub(super) fingerprint: Fingerprint,
    /// That of the execution as well: its work may outlive the runtime of this task.
    pub(super) guard: Arc<LockGuard>,
    pub(super) lead: LeadInHand,
    pub(super) watched: Run,
    pub(super) _kept: Kept,
}

/// Counts a task from its spawn until its lock and its lead are let go.
#[derive(Debug)]
pub(super) struct Kept(watch::Sender<usize>);

impl Kept {
    pub(super) fn one_more(tasks: &watch::Sender<usize>) -> Self {
        tasks.send_modify(|tasks| *tasks += 1);
        Self(tasks.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.send_modify(|tasks| *tasks -= 1);
    }
}

impl Task {
    pub(super) fn store(&self) -> &dyn RecordStore {
        &*self.shared.store
    }

    pub(super) fn token(&self) -> FencingToken {
        self.guard.token()
    }

    pub(super) fn claim(&self) -> ClaimRecord {
        ClaimRecord {
            fingerprint: self.fingerprint,
            token: self.token(),
            ttl: self.options.in_flight_ttl,
            on_unknown: self.options.on_unknown,
        }
    }

    #[cfg(feature = "sql")]
    fn place(&self) -> Destination {
        Destination { table: self.store().table().cloned(), ttl: self.options.record_ttl }
    }

    /// Claims the record, and keeps it to its end. `answer` is told what the claim came to.
    pub(super) async fn keep(self, answer: Answer) {
        let mut work = pin!(self.work(answer));
        tokio::select! {
            biased;
            () = &mut work => return,
            // Another process may run from now on, so those who wait here ask anew: this execution
            // may never end.
            _ = self.guard.lost() => self.lead.leave(),
        }
        work.await;
    }

    async fn work(&self, answer: Answer) {
        if answer.is_closed() {
            return self.watched.ended("unused");
        }
        if !self.guard.is_held() {
            // Stopped past its lease: a claim now would look like an execution to the next.
            drop(answer.send(Ok(Begun::InFlight { age: Duration::ZERO })));
            return self.watched.ended("unused");
        }
        let claim = self.claim();
        let asked = Repeat::new();
        let mut answer = Some(answer);
        let claimed = {
            let go_on = || self.guard.is_held() && asked.is_within(STORE_WITHIN);
            let verb = || self.store().claim(self.id, &claim);
            let late = |fault| self.fail(fault, &mut answer);
            asked.ask_beyond(verb, go_on, late).await
        };
        match (claimed, answer) {
            (Ok(Claimed::Claimed { replaced }), Some(answer)) => self.run(replaced, answer).await,
            (Ok(Claimed::Claimed { .. }), None) => self.unused().await,
            (Ok(claimed), answer) => self.tell(claimed, answer),
            (Err(fault), mut answer) => {
                // Whatever the last try came to, an earlier one may have taken effect.
                let is_unknown = fault.is_transient() || asked.has_failed();
                self.fail(fault, &mut answer);
                match is_unknown {
                    // It may have been claimed: it is taken back before the lock is.
                    true => self.unused().await,
                    false => self.watched.ended("unused"),
                }
            }
        }
    }

    /// The store did not say whether the record is claimed.
    fn fail(&self, fault: Fault, answer: &mut Option<Answer>) {
        let Some(answer) = answer.take() else { return };
        let is_everybodys = !fault.is_transient() || self.guard.is_held();
        let error = BeginError::Records { id: self.id, fault };
        if is_everybodys {
            self.lead.end(End::Failed(error.clone()));
        }
        drop(answer.send(Err(error)));
    }

    /// There is nothing to run.
    fn tell(&self, claimed: Claimed, answer: Option<Answer>) {
        self.watched.ended("unused");
        let (begun, end) = match claimed {
            Claimed::Done(payload) => (Begun::Replay(payload.clone()), Some(End::Done(payload))),
            Claimed::WithoutPayload => (Begun::WithoutPayload, Some(End::WithoutPayload)),
            Claimed::Mismatch => (Begun::Mismatch, Some(End::Mismatch)),
            Claimed::Unknown { age } => {
                self.shared.counters.unknown.add();
                (Begun::Unknown { age }, Some(End::Unknown { age }))
            }
            Claimed::InFlight { age, token } => {
                self.warn_of(token);
                (Begun::InFlight { age }, None)
            }
            Claimed::Claimed { .. } => return,
        };
        if let Some(end) = end {
            self.lead.end(end);
        }
        if let Some(answer) = answer {
            // The caller may be gone.
            drop(answer.send(Ok(begun)));
        }
    }

    /// A record in flight under a greater token than that of the lock's holder. Either the lock
    /// store has forgotten its tokens, or not all processes use the same one.
    fn warn_of(&self, greater: FencingToken) {
        if self.guard.is_held() {
            let (id, token) = (self.id, self.token());
            tracing::warn!(
                %id, %token, %greater,
                "an idempotency record is in flight under a greater token than its lock's holder \
                 has: do all processes use the same lock store, and has it lost its data?"
            );
        }
    }

    async fn run(&self, replaced: Option<FencingToken>, answer: Answer) {
        self.lead.in_flight(Duration::ZERO);
        let (finish, finished) = oneshot::channel();
        let execution = Execution::new(
            self.id,
            self.guard.clone(),
            replaced,
            finish,
            #[cfg(feature = "sql")]
            self.place(),
        );
        // Not received, it says so by being dropped.
        drop(answer.send(Ok(Begun::Run(execution))));
        let finish = tokio::select! {
            biased;
            finish = finished => finish.ok(),
            never = self.extend() => match never {},
        };
        // Cut somewhere in the middle, with nobody to say where.
        let stays = || !self.guard.is_held() || self.options.on_unknown == OnUnknown::Refuse;
        match finish {
            Some(Finish::Complete(outcome, old, reply)) => {
                self.complete(outcome, old, reply).await;
            }
            Some(Finish::Abort(reply)) => self.abort(Some(reply)).await,
            Some(Finish::Unused) => self.unused().await,
            Some(Finish::Answered(end)) => {
                self.lead.end(end);
                self.unused().await;
            }
            #[cfg(feature = "sql")]
            Some(Finish::Committed(outcome, reply)) => {
                self.committed(&outcome);
                tell(&mut Some(reply), Ok(()));
            }
            #[cfg(feature = "sql")]
            Some(Finish::Settle(outcome, verdict)) => self.settle(&outcome, verdict).await,
            Some(Finish::GiveUp(reply)) if !stays() => self.abort(Some(reply)).await,
            None if !stays() => self.abort(None).await,
            // The guard goes with this task, and the record stays.
            Some(Finish::GiveUp(reply)) => {
                self.watched.ended("left");
                tell(&mut Some(reply), Ok(()));
            }
            Some(Finish::Leave) | None => self.watched.ended("left"),
        }
    }

    /// Nothing has run under the claim.
    async fn unused(&self) {
        self.watched.ended("unused");
        self.take_back(None).await;
    }

    /// Keeps the record alive as long as the lock is held: the same claim again extends it.
    pub(super) async fn extend(&self) -> Infallible {
        let claim = self.claim();
        let often = claim.ttl / 3;
        let mut pause = often;
        loop {
            tokio::time::sleep(pause).await;
            pause = often;
            if !self.guard.is_held() {
                continue;
            }
            let verb = || self.store().claim(self.id, &claim);
            match Repeat::new().ask(STORE_WITHIN, verb, || self.guard.is_held()).await {
                Err(fault) if fault.is_transient() => pause = often.min(EXTEND_SOON),
                Ok(Claimed::InFlight { token, .. }) => self.warn_of(token),
                Ok(_) | Err(_) => {}
            }
        }
    }
}
