//! How a [`Task`] ends: the outcome is written, or the record removed, under the lock.

use super::error::CompleteError;
use super::execution::{Execution, Reply, tell};
use super::repeat::{KEEP_COMPLETING, Repeat};
use super::single_flight::End;
use super::task::Task;
use crate::backend::Fault;
use crate::records::{BoxFuture, ClaimRecord, Claimed, Outcome, Written};

impl Task {
    /// Writes the outcome, under the old secret first where there is one.
    pub(super) async fn complete(
        &self,
        outcome: Outcome,
        old: Option<Box<Execution>>,
        reply: Reply,
    ) {
        let mut reply = Some(reply);
        if let Some(old) = old
            && !self.complete_old(old, &outcome, &mut reply).await
        {
            // The record stays: what this one has done nobody may take for nothing.
            return self.watched.ended("left");
        }
        self.complete_new(outcome, reply).await;
    }

    /// It has happened, and nobody else may have begun: duplicates here may know.
    pub(super) fn tell_duplicates(&self, outcome: &Outcome) {
        if self.guard.is_held() {
            self.lead.end(End::of(outcome));
        }
    }

    async fn complete_new(&self, outcome: Outcome, mut reply: Option<Reply>) {
        let (id, token) = (self.id, self.token());
        let counters = &self.shared.counters;
        let last = reply.clone();
        let unwritten = |reply: &mut Option<Reply>, fault| {
            self.tell_duplicates(&outcome);
            // The caller may be told already.
            if reply.is_some() {
                counters.unwritten_completions.add();
                tell(reply, Err(CompleteError::Unavailable { id, fault }));
            }
        };
        let (claim, asked) = (self.claim(), Repeat::new());
        let written = {
            let verb = || -> BoxFuture<'_, _> { Box::pin(self.write(&claim, &outcome)) };
            let late = |fault| unwritten(&mut reply, fault);
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
                self.watched.ended("completed");
                self.lead.end(End::of(&outcome));
                tell(&mut reply.or(last), Ok(()));
            }
            Ok(Written::Stale) => {
                counters.stale_completions.add();
                self.watched.ended("stale");
                self.warn_too_late();
                tell(&mut reply.or(last), Err(CompleteError::Stale { id, token }));
            }
            Err(fault) => {
                tracing::warn!(%id, %token, %fault, "the outcome of an idempotent execution was not written");
                self.watched.ended("unknown");
                unwritten(&mut reply, fault);
            }
        }
    }

    /// Another has taken over.
    pub(super) fn warn_too_late(&self) {
        #[cfg(feature = "metrics")]
        crate::metrics::series::stale_completion();
        let (id, token) = (self.id, self.token());
        tracing::warn!(%id, %token, "an idempotent execution ended too late: its outcome was dropped");
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

    pub(super) async fn abort(&self, reply: Option<Reply>) {
        self.shared.counters.aborted.add();
        self.watched.ended("aborted");
        self.take_back(reply).await;
    }

    /// Removes the record while the lock is still held. Who waits here waits on: the record may
    /// be gone yet.
    pub(super) async fn take_back(&self, mut reply: Option<Reply>) {
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
