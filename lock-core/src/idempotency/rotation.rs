//! A secret that is being replaced: one execution under two names.
//!
//! Meanwhile some processes know the old secret alone, some both, and later some the new one alone.
//! One that knows both has the lock and the record under each. So it excludes all the others, and
//! leaves its outcome where each of them looks.
//!
//! Each of the two is an execution like any other, with a task of its own. The locks are taken in the
//! order of the records' ids, which is the same in all processes, so none waits for another in a
//! circle. The outcome is written under the old secret first: where a process that knows no other
//! has taken over, its outcome is the one, and none is written under the new.

use std::sync::Arc;
use std::time::Duration;

use super::begin::Begin;
use super::begun::Begun;
use super::error::{BeginError, CompleteError};
use super::execution::{Execution, Finish, Reply, tell};
use super::service::Service;
use super::single_flight::End;
use super::stats::Counters;
use super::task::Task;
use crate::records::{Claimed, Ids, Outcome};

/// The names of records under the secret that is being replaced.
#[derive(Clone)]
pub(super) struct Old {
    pub(super) ids: Ids,
    /// As that of the client, with counters that nobody reads: what they count is counted already.
    pub(super) shared: Arc<Service>,
}

impl Old {
    pub(super) fn new(ids: Ids, shared: &Service) -> Self {
        let shared = Service {
            locks: shared.locks.clone(),
            store: shared.store.clone(),
            flights: shared.flights.clone(),
            counters: Counters::default(),
            tasks: shared.tasks.clone(),
        };
        Self { ids, shared: Arc::new(shared) }
    }
}

/// Begins under both names, or answers what one of them has.
pub(super) async fn begin(new: &Begin<'_>, old: &Begin<'_>) -> Result<Begun, BeginError> {
    let deadline = new.deadline();
    let is_new_first = new.id < old.id;
    let (first, second) = if is_new_first { (new, old) } else { (old, new) };
    // Before anything is claimed: what is claimed for a request that is none of this key's would
    // be a mismatch to those that are.
    if let Some(begun) = second.answered().await? {
        return Ok(begun);
    }
    let one = match first.begin(deadline).await? {
        Begun::Run(one) => one,
        begun => return Ok(found(new, first, begun)),
    };
    // From here on `one` is taken back where it is dropped: nothing has run.
    let other = match second.begin(deadline).await? {
        Begun::Run(other) => other,
        begun => {
            one.give_way(end_of(&begun));
            return Ok(found(new, second, begun));
        }
    };
    if !one.handle().is_held() {
        // Lost while the other was waited for: another may run already.
        return Ok(Begun::InFlight { age: Duration::ZERO });
    }
    let (new, old) = if is_new_first { (one, other) } else { (other, one) };
    Ok(Begun::Run(new.beside(old)))
}

/// Counts what was found under the old secret alone: that one has counters that nobody reads.
fn found(new: &Begin<'_>, by: &Begin<'_>, begun: Begun) -> Begun {
    if by.id != new.id && matches!(begun, Begun::Unknown { .. }) {
        new.shared.counters.unknown.add();
    }
    begun
}

/// The end that duplicates in the line of the other name may be told as well.
fn end_of(begun: &Begun) -> Option<End> {
    match begun {
        Begun::Replay(payload) => Some(End::Done(payload.clone())),
        Begun::WithoutPayload => Some(End::WithoutPayload),
        Begun::Mismatch => Some(End::Mismatch),
        Begun::Unknown { age } => Some(End::Unknown { age: *age }),
        Begun::Run(_) | Begun::InFlight { .. } => None,
    }
}

impl Execution {
    /// Takes the execution under the old secret along.
    fn beside(mut self, old: Self) -> Self {
        self.replaced = self.replaced.or(old.replaced);
        self.old = Some(Box::new(old));
        self
    }

    /// Nothing runs: the other name has an answer.
    fn give_way(mut self, end: Option<End>) {
        if let Some(end) = end {
            self.say(Finish::Answered(end));
        }
    }
}

impl Task {
    /// Writes the outcome under the old secret, and keeps this record alive meanwhile. Whether it is to
    /// be written under the new one as well. The caller is told in time if the store does not answer;
    /// how that ended is waited for all the same, as another may have taken over meanwhile.
    pub(super) async fn complete_old(
        &self,
        old: Box<Execution>,
        outcome: &Outcome,
        reply: &mut Option<Reply>,
    ) -> bool {
        let counters = &self.shared.counters;
        let completing = async {
            let overtaken = CompleteError::Stale { id: self.id, token: self.token() };
            if self.is_overtaken().await {
                // The outcome of the other is to be the only one.
                self.warn_too_late();
                old.leave();
                return Err(overtaken);
            }
            let handle = old.handle();
            let mut ending = old.ending_with(outcome.clone());
            match ending.in_time().await {
                Err(late) if !late.is_stale() => {
                    if handle.is_held() {
                        self.tell_duplicates(outcome);
                    }
                    counters.unwritten_completions.add();
                    tell(reply, Err(late.clone()));
                    ending.at_last().await.unwrap_or(Err(late))
                }
                word => word,
            }
        };
        let completed = tokio::select! {
            biased;
            completed = completing => completed,
            never = self.extend() => match never {},
        };
        let Err(error) = completed else { return true };
        if error.is_stale() {
            counters.stale_completions.add();
        }
        tell(reply, Err(error));
        false
    }

    /// Whether another execution is known to have taken over under the new secret.
    async fn is_overtaken(&self) -> bool {
        if self.guard.is_held() {
            return false;
        }
        // The same claim again: as it was answered before, if it still stands.
        let claimed = self.store().claim(self.id, &self.claim()).await;
        !matches!(claimed, Ok(Claimed::Claimed { .. }) | Err(_))
    }
}
