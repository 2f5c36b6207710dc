//! The one task of an execution: it claims the record, holds the lock while the execution runs,
//! writes the outcome, and then lets go of the lock.
//!
//! Requests run to their end whatever becomes of the caller, and dropping an
//! [`Execution`](super::Execution) needs no more than a word to this task.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::begin::Begun;
use super::client::Shared;
use super::error::{BeginError, CompleteError};
use super::execution::{Execution, Finish, Reply};
use super::fingerprint::Fingerprint;
use super::flight::{End, LeadInHand};
use super::id::RecordId;
use super::options::{OnUnknown, Options};
use super::repeat::{KEEP_COMPLETING, Repeat, STORE_WITHIN};
use super::store::{BoxFuture, ClaimRecord, Claimed, Outcome, RecordStore, Written};
use crate::backend::Fault;
use crate::guard::LockGuard;
use crate::token::FencingToken;

/// Where the caller of `begin` waits.
pub(super) type Answer = oneshot::Sender<Result<Begun, BeginError>>;

/// How soon a record is extended again after a fault, at most.
const EXTEND_SOON: Duration = Duration::from_secs(1);

/// See the module. The lock is dropped before the lead, so that who leads next finds it free.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) options: Options,
    pub(super) id: RecordId,
    pub(super) fingerprint: Fingerprint,
    pub(super) guard: LockGuard,
    pub(super) lead: LeadInHand,
}

impl Keeper {
    fn store(&self) -> &dyn RecordStore {
        &*self.shared.store
    }

    fn token(&self) -> FencingToken {
        self.guard.token()
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
                // Whatever the last try came to, an earlier one may have taken effect.
                let is_unknown = fault.is_transient() || asked.has_failed();
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
        let is_everybodys = !fault.is_transient() || self.guard.is_held();
        let error = BeginError::Records { id: self.id, fault };
        if is_everybodys {
            self.lead.end(End::Failed(error.clone()));
        }
        drop(answer.send(Err(error)));
    }

    /// There is nothing to run.
    fn tell(&self, claimed: Claimed, answer: Option<Answer>) {
        let (begun, end) = match claimed {
            Claimed::Done(payload) => (Begun::Replay(payload.clone()), Some(End::Done(payload))),
            Claimed::Tombstone => (Begun::Tombstone, Some(End::Tombstone)),
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

    /// A record in flight under a greater token than that of who holds the lock: the lock store
    /// has forgotten its tokens, or not all processes use the same one.
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
        let execution = Execution::new(self.id, self.guard.handle(), replaced, finish);
        // Not received, it says so by being dropped.
        drop(answer.send(Ok(Begun::Run(execution))));
        let finish = tokio::select! {
            biased;
            finish = finished => finish.ok(),
            never = self.extend() => match never {},
        };
        // Cut somewhere in the middle, with nobody to say where.
        let stays = |panicked: bool| {
            !self.guard.is_held() || (self.options.on_unknown == OnUnknown::Refuse && !panicked)
        };
        match finish {
            Some(Finish::Complete(outcome, reply)) => self.complete(outcome, reply).await,
            Some(Finish::Abort(reply)) => self.abort(Some(reply)).await,
            Some(Finish::Unused) => self.take_back(None).await,
            Some(Finish::Panicked) if !stays(true) => self.abort(None).await,
            None if !stays(false) => self.abort(None).await,
            // The guard goes with this task, and the record stays.
            Some(Finish::Leave | Finish::Panicked) | None => {}
        }
    }

    /// Keeps the record alive as long as the lock is held: the same claim again extends it.
    async fn extend(&self) -> Infallible {
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

    async fn complete(&self, outcome: Outcome, reply: Reply) {
        let (id, token) = (self.id, self.token());
        let counters = &self.shared.counters;
        let end = || match &outcome {
            Outcome::Payload(payload) => End::Done(payload.clone()),
            Outcome::Tombstone => End::Tombstone,
        };
        let unwritten = |fault| {
            counters.unwritten_completions.add();
            // It has happened, and nobody else may have begun: duplicates here may know.
            if self.guard.is_held() {
                self.lead.end(end());
            }
            Err(CompleteError::Unavailable { id, fault })
        };
        let mut reply = Some(reply);
        let (claim, asked) = (self.claim(), Repeat::new());
        let written = {
            let verb = || -> BoxFuture<'_, _> { Box::pin(self.write(&claim, &outcome)) };
            let late = |fault| tell(&mut reply, unwritten(fault));
            let within = KEEP_COMPLETING.min(self.options.in_flight_ttl);
            tokio::select! {
                biased;
                written = asked.insist(within, verb, late) => written,
                // Should it never be written, that it is unknown is known for as long as ever.
                never = self.extend() => match never {},
            }
        };
        match written {
            Ok(Written::Yes) => {
                counters.completed.add();
                self.lead.end(end());
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

    /// Writes the outcome. Where the record is gone (its life was over, the store was emptied, or
    /// made room), and nobody else has claimed it since, nothing speaks against the outcome.
    async fn write(&self, claim: &ClaimRecord, outcome: &Outcome) -> Result<Written, Fault> {
        let ttl = self.options.record_ttl;
        let complete = || self.store().complete(self.id, claim.token, outcome, ttl);
        if complete().await? == Written::Yes {
            return Ok(Written::Yes);
        }
        match self.store().claim(self.id, claim).await? {
            Claimed::Claimed { .. } => complete().await,
            _ => Ok(Written::Stale),
        }
    }

    async fn abort(&self, reply: Option<Reply>) {
        self.shared.counters.aborted.add();
        self.take_back(reply).await;
    }

    /// Removes the record while the lock is still held. Who waits here waits on: the record may
    /// be gone yet.
    async fn take_back(&self, mut reply: Option<Reply>) {
        let (id, token) = (self.id, self.token());
        let verb = || self.store().abort(id, token);
        let written = {
            let late = |fault| tell(&mut reply, Err(CompleteError::Unavailable { id, fault }));
            Repeat::new().ask_beyond(verb, || true, late).await
        };
        let result = match written {
            Ok(Written::Yes) => Ok(()),
            Ok(Written::Stale) => Err(CompleteError::Stale { id, token }),
            Err(fault) => {
                tracing::warn!(%id, %token, %fault, "an aborted idempotent execution is still on record");
                Err(CompleteError::Unavailable { id, fault })
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
