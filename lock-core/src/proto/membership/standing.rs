//! The standing of one member, by what it says of itself.

use std::time::Duration;

use crate::backend::{Enrolment, Probe};
use crate::proto::lease::margin;

/// The terms that all clients of one quorum must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) quorum: String,
    pub(crate) members: u32,
    pub(crate) lease_max: Duration,
}

/// The standing of a member: whether it may grant, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has no enrolment.
    Vacant,
    /// Its enrolment is of another quorum, or of other terms.
    Foreign,
    /// Its enrolment is of an earlier incarnation, and it may have lost what it wrote since; or of
    /// a time that its clock has not reached again.
    Lost,
    /// It may grant in so long.
    Early { left: Duration },
    /// Its quarantine is over, and nobody has told it how far the others are.
    Unrepaired,
    /// It may grant.
    Good,
}

impl Identity {
    /// How long a member that lost its data is kept away. Its clock may run faster than the clock
    /// of a holder whose lease it granted.
    pub(crate) fn quarantine(&self) -> Duration {
        self.lease_max + margin(self.lease_max)
    }

    pub(crate) fn standing(&self, probe: &Probe) -> Standing {
        let Some(enrolment) = &probe.enrolment else { return Standing::Vacant };
        let Enrolment { quorum, members, lease_max, ready_at, token_min, .. } = enrolment;
        if (quorum, members, lease_max) != (&self.quorum, &self.members, &self.lease_max) {
            return Standing::Foreign;
        }
        if enrolment.incarnation != probe.incarnation {
            return Standing::Lost;
        }
        match (ready_at.checked_sub(probe.now), token_min) {
            // Its clock was set back: who knows for how long it would be kept away.
            (Some(left), _) if left > self.quarantine() => Standing::Lost,
            (Some(left), _) if !left.is_zero() => Standing::Early { left },
            (_, None) => Standing::Unrepaired,
            (_, Some(_)) => Standing::Good,
        }
    }
}

impl Probe {
    /// No token that was ever reserved where this member counts is greater, as far as it knows.
    pub(crate) fn reached(&self) -> u64 {
        let token_min = self.enrolment.as_ref().and_then(|enrolment| enrolment.token_min);
        self.highest.max(token_min.unwrap_or(0))
    }
}
