//! The one task of an execution: it claims the record, holds the lock while the execution runs,
//! writes the outcome, and then lets go of the lock.
//!
//! Requests run to their end whatever becomes of the caller, and dropping an
//! [`Execution`](super::Execution) needs no more than a word to this task.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::begin::Begun;
use super::client::Shared;
use super::error::{BeginError, CompleteError};
use super::execution::{Execution, Finish, Reply};
use super::fingerprint::Fingerprint;
use super::flight::{End, Lead};
use super::id::RecordId;
use super::options::Options;
use super::repeat::{Repeat, STORE_WITHIN};
use super::store::{ClaimRecord, Claimed, Outcome, RecordStore, Written};
use crate::backend::Fault;
use crate::guard::LockGuard;
use crate::token::FencingToken;

/// Where the caller of `begin` waits.
pub(super) type Answer = oneshot::Sender<Result<Begun, BeginError>>;

/// See the module. The lock is dropped before the lead, so that who leads next finds it free.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) options: Options,
    pub(super) id: RecordId,
    pub(super) fingerprint: Fingerprint,
    pub(super) guard: LockGuard,
    /// Given up when the lock is lost: what ends later is no duplicate's outcome any more.
    pub(super) lead: Option<Lead>,
}

impl Keeper {
    fn store(&self) -> &dyn RecordStore {
        &*self.shared.store
    }

    fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Gives everybody who waits in this process this end.
    fn end(&self, end: End) {
        if let Some(lead) = &self.lead {
            lead.end(end);
        }
    }

    fn claim(&self) -> ClaimRecord {
        ClaimRecord {
            fingerprint: self.fingerprint,
            token: self.token(),
            ttl: self.options.in_flight_ttl,
            on_unknown: self.options.on_unknown,
        }
    }

    /// Claims the record, and keeps it to its end. `answer` is told what the claim came to.
    pub(super) async fn keep(self, answer: Answer) {
        if answer.is_closed() {
            return;
        }
        if !self.guard.is_held() {
            // Stopped past its lease: a claim now would look like an execution to the next.
            drop(answer.send(Ok(Begun::InFlight { age: Duration::ZERO })));
            return;
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
            (Ok(Claimed::Claimed { .. }), None) => self.take_back(None).await,
            (Ok(claimed), answer) => self.tell(claimed, answer),
            (Err(fault), mut answer) => {
                let is_unknown = fault.is_transient();
                self.fail(fault, &mut answer);
                if is_unknown {
                    // It may have been claimed: it is taken back before the lock is.
                    self.take_back(None).await;
                }
            }
        }
    }

    /// The store did not say whether the record is claimed.
    fn fail(&self, fault: Fault, answer: &mut Option<Answer>) {
        let Some(answer) = answer.take() else { return };
        let error = BeginError::Records { id: self.id, fault };
        self.end(End::Failed(error.clone()));
        drop(answer.send(Err(error)));
    }

    /// There is nothing to run.
    fn tell(self, claimed: Claimed, answer: Option<Answer>) {
        let (begun, end) = match claimed {
            Claimed::Done(payload) => (Begun::Replay(payload.clone()), Some(End::Done(payload))),
            Claimed::Tombstone => (Begun::Tombstone, Some(End::Tombstone)),
            Claimed::Mismatch => (Begun::Mismatch, Some(End::Mismatch)),
            Claimed::Unknown { age } => {
                self.shared.counters.unknown.add();
                (Begun::Unknown { age }, Some(End::Unknown { age }))
            }
            Claimed::InFlight { age, .. } => (Begun::InFlight { age }, None),
            Claimed::Claimed { .. } => return,
        };
        if let Some(end) = end {
            self.end(end);
        }
        if let Some(answer) = answer {
            // The caller may be gone.
            drop(answer.send(Ok(begun)));
        }
    }

    async fn run(mut self, replaced: Option<FencingToken>, answer: Answer) {
        let counters = &self.shared.counters;
        counters.executed.add();
        if replaced.is_some() {
            counters.unknown.add();
        }
        if let Some(lead) = &self.lead {
            lead.in_flight(Duration::ZERO);
        }
        let (finish, mut finished) = oneshot::channel();
        let execution = Execution::new(self.id, self.guard.handle(), replaced, finish);
        // Not received, it is dropped, and so aborted.
        drop(answer.send(Ok(Begun::Run(execution))));
        let mut lost = self.guard.lost();
        let finish = loop {
            let claim = self.claim();
            tokio::select! {
                biased;
                finish = &mut finished => break finish.ok(),
                // Another process may run from now on, so those who wait here ask anew: this
                // execution may never end.
                _ = &mut lost, if self.lead.is_some() => self.lead = None,
                () = tokio::time::sleep(claim.ttl / 3) => {
                    // The record lives as long as the execution: the same claim again extends it.
                    if self.guard.is_held() {
                        drop(self.store().claim(self.id, &claim).await);
                    }
                }
            }
        };
        match finish {
            Some(Finish::Complete(outcome, reply)) => self.complete(outcome, reply).await,
            Some(Finish::Abort(reply)) => self.abort(Some(reply)).await,
            None => self.abort(None).await,
            // The guard goes with this task, and the record stays.
            Some(Finish::Leave) => {}
        }
    }

    async fn complete(self, outcome: Outcome, reply: Reply) {
        let (id, token, ttl) = (self.id, self.token(), self.options.record_ttl);
        let counters = &self.shared.counters;
        let end = || match &outcome {
            Outcome::Payload(payload) => End::Done(payload.clone()),
            Outcome::Tombstone => End::Tombstone,
        };
        let unwritten = |fault| {
            counters.unwritten_completions.add();
            // It has happened, and nobody else may have begun: duplicates here may know.
            if self.guard.is_held() {
                self.end(end());
            }
            Err(CompleteError::Unavailable { id, fault })
        };
        let mut reply = Some(reply);
        let verb = || self.store().complete(id, token, &outcome, ttl);
        let late = |fault| tell(&mut reply, unwritten(fault));
        let written = Repeat::new().ask_beyond(verb, || true, late).await;
        match written {
            Ok(Written::Yes) => {
                counters.completed.add();
                self.end(end());
                tell(&mut reply, Ok(()));
            }
            Ok(Written::Stale) => {
                counters.stale_completions.add();
                #[cfg(feature = "metrics")]
                crate::metrics::series::stale_completion();
                tracing::warn!(%id, %token, "an idempotent execution ended too late: its outcome was dropped");
                tell(&mut reply, Err(CompleteError::Stale { id, token }));
            }
            Err(fault) => {
                tracing::warn!(%id, %token, %fault, "the outcome of an idempotent execution was not written");
                if reply.is_some() {
                    tell(&mut reply, unwritten(fault));
                }
            }
        }
    }

    async fn abort(self, reply: Option<Reply>) {
        self.shared.counters.aborted.add();
        self.take_back(reply).await;
    }

    /// Removes the record while the lock is still held.
    async fn take_back(self, mut reply: Option<Reply>) {
        let (id, token) = (self.id, self.token());
        let late = |fault: Fault| {
            self.end(End::Failed(BeginError::Records { id, fault: fault.clone() }));
            Err(CompleteError::Unavailable { id, fault })
        };
        let verb = || self.store().abort(id, token);
        let written = {
            let late = |fault| tell(&mut reply, late(fault));
            Repeat::new().ask_beyond(verb, || true, late).await
        };
        let result = match written {
            Ok(Written::Yes) => Ok(()),
            Ok(Written::Stale) => Err(CompleteError::Stale { id, token }),
            Err(fault) => {
                tracing::warn!(%id, %token, %fault, "an aborted idempotent execution is still on record");
                late(fault)
            }
        };
        tell(&mut reply, result);
    }
}

/// Answers once.
fn tell(reply: &mut Option<Reply>, result: Result<(), CompleteError>) {
    if let Some(reply) = reply.take() {
        // The caller may be gone.
        drop(reply.send(result));
    }
}
