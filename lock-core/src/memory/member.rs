//! A store in this process as a member of a quorum.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::Memory;
use crate::backend::{self, Enrolment, Fault, FaultKind, Probe, SEEN_WITHIN};
use crate::ground::{clock, lock};

/// The state of a store as a member.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) enrolment: Option<Enrolment>,
    /// Counts its starts.
    pub(super) incarnation: u64,
    pub(super) started: Instant,
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

/// The terms on which a client is served.
#[derive(Debug, Clone, Default)]
pub(super) enum Gate {
    /// It is no member for this client.
    #[default]
    Open,
    Shut,
    /// While the store has this enrolment, and is in the incarnation that this was written in.
    Under {
        enrolment: Arc<Enrolment>,
        incarnation: u64,
    },
}

impl Gate {
    fn under(enrolment: &Enrolment) -> Self {
        match enrolment.incarnation.parse() {
            Ok(incarnation) => Self::Under { enrolment: Arc::new(enrolment.clone()), incarnation },
            // The enrolment is that of another store.
            Err(_) => Self::Shut,
        }
    }
}

/// The gate of one client.
#[derive(Debug, Default)]
pub(super) struct Door(Mutex<Gate>);

impl Door {
    pub(super) fn gate(&self) -> Gate {
        lock(&self.0).clone()
    }
}

pub(super) fn unready() -> Fault {
    Fault::new(FaultKind::Unready, "the store has to be probed first")
}

impl backend::Member for Memory {
    async fn probe(&self) -> Result<Probe, Fault> {
        let state = self.store.state();
        let (member, now) = (&state.member, clock::now());
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
        *lock(&self.door.0) = enrolment.map_or(Gate::Shut, Gate::under);
    }
}
