//! A store in this process as a member of a quorum; what tests do to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Memory;
#[cfg(feature = "test-util")]
use super::store::State;
use crate::backend::{self, Enrolment, Fault, FaultKind, Probe, SEEN_WITHIN};
use crate::ground::clock;

/// What a store knows of itself as a member.
#[derive(Debug, Clone)]
pub(super) struct Member {
    enrolment: Option<Enrolment>,
    /// Counts its starts.
    incarnation: u64,
    started: Instant,
}

impl Member {
    pub(super) const fn new(started: Instant) -> Self {
        Self { enrolment: None, incarnation: 0, started }
    }

    pub(super) fn serves(&self, gate: &Gate) -> bool {
        match gate {
            Gate::Open => true,
            Gate::Shut => false,
            Gate::Under { enrolment, incarnation } => {
                *incarnation == self.incarnation && self.enrolment.as_ref() == Some(enrolment)
            }
        }
    }
}

/// On which terms a client is served.
#[derive(Debug, Clone, Default)]
pub(super) enum Gate {
    /// It is no member for this client.
    #[default]
    Open,
    Shut,
    /// While the store has this enrolment, and is in the incarnation that it was probed in.
    Under {
        enrolment: Arc<Enrolment>,
        incarnation: u64,
    },
}

/// The gate of one client, and the incarnation that it probed the store in.
#[derive(Debug, Default)]
pub(super) struct Door(Mutex<(Gate, u64)>);

impl Door {
    fn state(&self) -> MutexGuard<'_, (Gate, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn gate(&self) -> Gate {
        self.state().0.clone()
    }
}

pub(super) fn unready() -> Fault {
    Fault::new(FaultKind::Unready, "the store has to be probed first")
}

impl backend::Member for Memory {
    async fn probe(&self) -> Result<Probe, Fault> {
        let state = self.store.state();
        let (member, now) = (&state.member, clock::now());
        self.door.state().1 = member.incarnation;
        Ok(Probe {
            enrolment: member.enrolment.clone(),
            incarnation: member.incarnation.to_string(),
            now: state.clock(now),
            up_for: now.saturating_duration_since(member.started),
            highest: state.highest(),
        })
    }

    async fn enrol(&self, seen: &Probe, enrolment: &Enrolment) -> Result<bool, Fault> {
        let mut state = self.store.state();
        let is_as_seen = state.member.enrolment == seen.enrolment
            && state.member.incarnation.to_string() == seen.incarnation
            && state.clock(clock::now()) <= seen.now + SEEN_WITHIN;
        if is_as_seen {
            state.member.enrolment = Some(enrolment.clone());
        }
        Ok(is_as_seen)
    }

    fn serve_under(&self, enrolment: Option<&Enrolment>) {
        let mut door = self.door.state();
        door.0 = match enrolment {
            Some(enrolment) => {
                Gate::Under { enrolment: Arc::new(enrolment.clone()), incarnation: door.1 }
            }
            None => Gate::Shut,
        };
    }
}

/// What a store had at one time.
#[cfg(feature = "test-util")]
#[derive(Debug, Clone)]
pub struct MemoryImage(State);

#[cfg(feature = "test-util")]
impl Memory {
    /// Forgets every key, token and enrolment, as a server without persistence does that is started
    /// anew. Claims that were there find out as over a network.
    pub fn restart(&self) {
        let mut state = self.store.state();
        state.clear();
        let incarnation = state.member.incarnation + 1;
        state.member = Member { incarnation, ..Member::new(clock::now()) };
    }

    /// Forgets the same without a new start, as by `FLUSHALL`.
    pub fn flush(&self) {
        let mut state = self.store.state();
        state.clear();
        state.member.enrolment = None;
    }

    /// What it has now.
    #[must_use]
    pub fn image(&self) -> MemoryImage {
        MemoryImage(self.store.state().clone())
    }

    /// Starts anew with what it had when the image was made.
    pub fn restore(&self, image: &MemoryImage) {
        let mut state = self.store.state();
        let incarnation = state.member.incarnation + 1;
        *state = image.0.clone();
        (state.member.incarnation, state.member.started) = (incarnation, clock::now());
    }
}
