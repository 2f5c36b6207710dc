//! The place of one claim in a line: a key, or a key that may be there.
//!
//! A place that is dropped has its key deleted, whatever becomes of the caller. That is tried until
//! the key is gone, it was never there, or the session is over.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::fault::Failure;
use super::links::{Answer, REQUEST_WITHIN, Repeat};
use super::session::Session;
use super::wire::{Compare, DeleteRangeRequest, Op, Range};
use crate::backend::leases::{self, Leased, Leases, Presence as _, Tenure};
use crate::ground::{FAULT_PAUSES, Plus as _, clock, lock};

/// Before what the servers refuse is tried again.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// Before each epoch: nothing that was sent is on its way any more.
const NO_EPOCH: i64 = 0;

/// One claim's key in a line, or a key that may be there; deleted when this is dropped.
#[derive(Debug)]
pub(super) struct LockKey {
    pub(super) session: Arc<Session>,
    pub(super) key: Vec<u8>,
    tenure: Mutex<Tenure<Presence>>,
}

/// The presence of the key, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    // ## Asked => (There | Absent | GivenUp)
    /// It was asked for in this epoch, and no answer has come that tells.
    Asked { epoch: i64 },
    // ## There => (Absent | GivenUp)
    /// It is there since this revision.
    There { created: i64 },
    /// It is not there, for sure.
    Absent,
    /// It is being deleted.
    GivenUp,
}

impl leases::Presence for Presence {
    const ABSENT: Self = Self::Absent;

    fn is_over(&self) -> bool {
        matches!(self, Self::Absent | Self::GivenUp)
    }
}

impl LockKey {
    /// A key that is about to be asked for in this epoch.
    pub(super) fn new(
        session: Arc<Session>,
        key: Vec<u8>,
        epoch: i64,
        until: Instant,
    ) -> Arc<Self> {
        let tenure = Tenure::new(Presence::Asked { epoch }, until);
        let place = Arc::new(Self { session, key, tenure: Mutex::new(tenure) });
        place.tenure().enter(place.leases(), &place);
        place
    }

    fn tenure(&self) -> MutexGuard<'_, Tenure<Presence>> {
        lock(&self.tenure)
    }

    fn leases(&self) -> &Leases {
        &self.session.liveness.leases
    }

    pub(super) fn presence(&self) -> Presence {
        self.tenure().presence
    }

    /// The key is there. One that was given up before is deleted all the same.
    pub(super) fn is_there(&self, created: i64) {
        let mut tenure = self.tenure();
        if !tenure.presence.is_over() {
            tenure.presence = Presence::There { created };
        }
    }

    /// The answer does not say whether the key is there. It will not come later.
    pub(super) fn is_untold(&self) {
        let mut tenure = self.tenure();
        if !tenure.presence.is_over() {
            tenure.presence = Presence::Asked { epoch: NO_EPOCH };
        }
    }

    /// The key is known not to be there.
    pub(super) fn is_gone(&self) {
        self.tenure().is_gone();
    }

    /// Whether the claim has lost its place: its lease or its session is over.
    pub(super) fn is_lost(&self) -> bool {
        self.session.liveness.is_over() || self.presence().is_over()
    }

    /// Extends the lease; `false` if the place was lost before.
    pub(super) fn extend(&self, until: Instant) -> bool {
        self.tenure().extend(until) && !self.session.liveness.is_over()
    }

    /// Learns what became of a key that was asked for.
    pub(super) async fn settle(&self, until: Instant) -> Answer<()> {
        match settled(&self.session, &self.key, self.presence(), until).await? {
            Some(created) => self.is_there(created),
            None => self.is_gone(),
        }
        Ok(())
    }

    /// Deletes the key that was created then; whether it was there.
    pub(super) async fn delete(&self, created: i64, until: Instant) -> Answer<bool> {
        let was_there = delete(&self.session, &self.key, created, until).await?;
        self.is_gone();
        Ok(was_there)
    }

    /// Deletes the key in the background.
    pub(super) fn give_up(&self) {
        let before = std::mem::replace(&mut self.tenure().presence, Presence::GivenUp);
        self.remove(before);
    }

    fn remove(&self, before: Presence) {
        if !before.is_over() && !self.session.liveness.is_over() {
            // Waiting for the next try it must not keep the session: its end would do as well.
            let removal = remove(Arc::downgrade(&self.session), self.key.clone(), before);
            drop(self.session.links.home.spawn(removal));
        }
    }
}

impl Leased for LockKey {
    fn expire(self: Arc<Self>, now: Instant) {
        let mut tenure = self.tenure();
        if !tenure.ends(now, self.leases(), &self) {
            return;
        }
        // Under the mutex that was looked under: nobody can extend the lease in between.
        let before = std::mem::replace(&mut tenure.presence, Presence::GivenUp);
        drop(tenure);
        self.remove(before);
        let key = String::from_utf8_lossy(&self.key).into_owned();
        tracing::warn!(key, "a lease was not renewed in time");
    }
}

impl Drop for LockKey {
    fn drop(&mut self) {
        self.tenure().leave(self.leases());
        self.give_up();
    }
}

/// The revision at which the key was created; `None` if it is not there, and will not be.
async fn settled(
    session: &Arc<Session>,
    key: &[u8],
    presence: Presence,
    until: Instant,
) -> Answer<Option<i64>> {
    let epoch = match presence {
        Presence::Asked { epoch } => epoch,
        Presence::There { created } => return Ok(Some(created)),
        Presence::Absent | Presence::GivenUp => return Ok(None),
    };
    session.fence(epoch, until).await?;
    let found = session.read(&Range::one(key), until).await?;
    Ok(found.kvs.first().map(|found| found.create_revision))
}

/// Deletes a key that was created then; whether it was there. It is asked once, as a second answer
/// would tell nothing of the first.
pub(super) async fn delete(
    session: &Session,
    key: &[u8],
    created: i64,
    until: Instant,
) -> Answer<bool> {
    let gone = Op::Delete(DeleteRangeRequest { key: key.to_vec() });
    let compare = vec![Compare::created(key, created)];
    let answer = session.transact(compare, vec![gone.into()], vec![], Repeat::No, until).await?;
    Ok(answer.succeeded)
}

/// Deletes until it is done, or the session is over, which takes its keys with it.
async fn remove(session: Weak<Session>, key: Vec<u8>, mut presence: Presence) {
    let mut failures = 0_u32;
    loop {
        let Some(session) = session.upgrade() else { return };
        if session.liveness.is_over() {
            return;
        }
        let until = clock::now().plus(REQUEST_WITHIN);
        let failure = match remove_once(&session, &key, &mut presence, until).await {
            Ok(()) | Err(Failure::NoLease) => return,
            Err(failure) => failure,
        };
        drop(session);
        failures = failures.saturating_add(1);
        let fault = failure.into_fault();
        if failures == 1 || !fault.is_transient() {
            let key = String::from_utf8_lossy(&key).into_owned();
            tracing::warn!(key, %fault, "the key of a claim is not deleted yet");
        }
        let pause = FAULT_PAUSES.pause(failures, clock::random_bits());
        clock::alarm_in(if fault.is_transient() { pause } else { REFUSED_PAUSE }).await;
    }
}

async fn remove_once(
    session: &Arc<Session>,
    key: &[u8],
    presence: &mut Presence,
    until: Instant,
) -> Answer<()> {
    let Some(created) = settled(session, key, *presence, until).await? else { return Ok(()) };
    *presence = Presence::There { created };
    delete(session, key, created, until).await?;
    Ok(())
}
