//! From a key to what is to be done about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::begun::Begun;
use super::error::BeginError;
use super::observe::Run;
use super::options::Options;
use super::repeat::{Repeat, STORE_WITHIN};
use super::service::Service;
use super::single_flight::{End, Joined, Lead, LeadInHand};
use super::task::{Kept, Task};
use crate::backend::{Fault, FaultKind};
use crate::engine::LockGuard;
use crate::error::AcquireError;
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::records::{Fingerprint, Found, OnUnknown, RecordId};

/// How long the last look takes at most, after the time to wait is over.
const LAST_LOOK: Duration = Duration::from_millis(250);

/// One request on its way.
pub(super) struct Begin<'a> {
    pub(super) shared: &'a Arc<Service>,
    pub(super) options: Options,
    pub(super) id: RecordId,
    pub(super) fingerprint: Fingerprint,
}

impl Begin<'_> {
    /// When the wait for duplicates that begins now is over; `None` where there is none.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.options.duplicates.wait().map(|wait| clock::now().plus(wait))
    }

    /// An execution that it comes to is still to be handed over.
    pub(super) async fn begin(&self, deadline: Option<Instant>) -> Result<Begun, BeginError> {
        let runtime = clock::runtime().ok_or_else(|| self.no_runtime())?;
        let key = (self.id, self.fingerprint);
        loop {
            return match self.shared.flights.join(key, deadline).await {
                Joined::Lead(lead) => self.lead(lead, deadline, &runtime).await,
                Joined::InFlight { age } => Ok(Begun::InFlight { age }),
                Joined::End(End::Done(payload)) => Ok(Begun::Replay(payload)),
                Joined::End(End::WithoutPayload) => Ok(Begun::WithoutPayload),
                Joined::End(End::Mismatch) => Ok(Begun::Mismatch),
                // The leader was told to refuse what this one may run.
                Joined::End(End::Unknown { .. })
                    if self.options.on_unknown == OnUnknown::Reexecute =>
                {
                    continue;
                }
                Joined::End(End::Unknown { age }) => {
                    self.shared.counters.unknown.add();
                    Ok(Begun::Unknown { age })
                }
                Joined::End(End::Failed(error)) => Err(error),
            };
        }
    }

    async fn lead(
        &self,
        lead: Lead,
        deadline: Option<Instant>,
        runtime: &Handle,
    ) -> Result<Begun, BeginError> {
        let age = match self.look().await {
            Ok(Found::Absent) => Duration::ZERO,
            Ok(Found::InFlight { age, .. }) => age,
            Ok(found) => return Ok(completed(&lead, found)),
            Err(fault) => return Err(self.failed(&lead, fault)),
        };
        lead.in_flight(age);
        let looked = clock::now();
        let guard = match self.lock(deadline).await {
            Ok(guard) => guard,
            Err(AcquireError::Timeout(_)) => {
                let age = age + clock::now().saturating_duration_since(looked);
                return Ok(self.too_long(&lead, deadline, age).await);
            }
            Err(error) => {
                let error = BeginError::Lock(error);
                // A leader who had less time than the store is given speaks for himself alone.
                let had = clock::now().saturating_duration_since(looked);
                let is_everybodys = !error.is_retryable() || had >= STORE_WITHIN;
                if error.is_unavailable() && is_everybodys {
                    lead.end(End::Failed(error.clone()));
                }
                return Err(error);
            }
        };
        self.claim(lead, guard, runtime).await
    }

    /// The answer that the record gives by itself; `None` where it is absent or in flight.
    pub(super) async fn answered(&self) -> Result<Option<Begun>, BeginError> {
        match self.look().await {
            Ok(Found::Done(payload)) => Ok(Some(Begun::Replay(payload))),
            Ok(Found::WithoutPayload) => Ok(Some(Begun::WithoutPayload)),
            Ok(Found::Mismatch) => Ok(Some(Begun::Mismatch)),
            Ok(Found::Absent | Found::InFlight { .. }) => Ok(None),
            Err(fault) => Err(BeginError::Records { id: self.id, fault }),
        }
    }

    async fn look(&self) -> Result<Found, Fault> {
        let peek = || self.shared.store.peek(self.id, self.fingerprint);
        Repeat::new().ask(STORE_WITHIN, peek, || true).await
    }

    /// Stands in line for the lock as long as there is time. Whoever runs holds it to the end,
    /// and hands it on when the outcome is on record.
    async fn lock(&self, deadline: Option<Instant>) -> Result<LockGuard, AcquireError> {
        let wait = deadline
            .map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(clock::now()));
        let key = Key::from_encoded(format!("idem:{}", self.id));
        self.shared.locks.lock(key).options(self.options.lock(wait)).acquire().await
    }

    /// The time is over. The outcome may be on record all the same: behind a long line, or behind
    /// a lock whose holder could not give it back.
    async fn too_long(&self, lead: &Lead, deadline: Option<Instant>, age: Duration) -> Begun {
        if deadline.is_some() {
            let peek = self.shared.store.peek(self.id, self.fingerprint);
            match tokio::time::timeout(LAST_LOOK, peek).await {
                Ok(Ok(Found::InFlight { age, .. })) => return Begun::InFlight { age },
                Ok(Ok(Found::Absent)) | Ok(Err(_)) | Err(_) => {}
                Ok(Ok(found)) => return completed(lead, found),
            }
        }
        Begun::InFlight { age }
    }

    async fn claim(
        &self,
        lead: Lead,
        guard: LockGuard,
        runtime: &Handle,
    ) -> Result<Begun, BeginError> {
        let &Self { shared, options, id, fingerprint } = self;
        let (answer, answered) = oneshot::channel();
        let (lead, watched) = (LeadInHand::new(lead), Run::begins(id, guard.token()));
        let guard = Arc::new(guard);
        let _kept = Kept::one_more(&shared.tasks);
        let task =
            Task { shared: shared.clone(), options, id, fingerprint, guard, lead, watched, _kept };
        drop(runtime.spawn(task.keep(answer)));
        match answered.await.unwrap_or_else(|_| Err(self.no_runtime())) {
            // Stopped past its lease before it began: another may run already.
            Ok(Begun::Run(execution)) if !execution.handle().is_held() => {
                Ok(Begun::InFlight { age: Duration::ZERO })
            }
            answer => answer,
        }
    }

    fn failed(&self, lead: &Lead, fault: Fault) -> BeginError {
        let error = BeginError::Records { id: self.id, fault };
        lead.end(End::Failed(error.clone()));
        error
    }

    fn no_runtime(&self) -> BeginError {
        let what = "no Tokio runtime here to keep an execution, or it is ending";
        BeginError::Records { id: self.id, fault: Fault::new(FaultKind::Refused, what) }
    }
}

/// There is an outcome on record: it is everybody's.
fn completed(lead: &Lead, found: Found) -> Begun {
    let (begun, end) = match found {
        Found::Done(payload) => (Begun::Replay(payload.clone()), End::Done(payload)),
        Found::WithoutPayload => (Begun::WithoutPayload, End::WithoutPayload),
        Found::Mismatch => (Begun::Mismatch, End::Mismatch),
        Found::Absent => return Begun::InFlight { age: Duration::ZERO },
        Found::InFlight { age, .. } => return Begun::InFlight { age },
    };
    lead.end(end);
    begun
}
