//! The names of things in spans and metrics: closed sets, each a field or a label.

use crate::backend::{Attempt, Fault, Renewal, Withdrawal};
use crate::error::AcquireError;
#[cfg(feature = "metrics")]
use crate::error::{OverloadBound, OverloadedError};
#[cfg(doc)]
use crate::proto::LossReason;

/// How an acquire ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    Granted,
    Timeout,
    Overloaded,
    Unavailable,
    Rejected,
    Closed,
    Cancelled,
}

impl WaitEnd {
    pub(crate) const ALL: [&'static str; 7] =
        ["granted", "timeout", "overloaded", "unavailable", "rejected", "closed", "cancelled"];

    pub(crate) fn of<T>(result: Result<T, &AcquireError>) -> Self {
        match result {
            Ok(_) => Self::Granted,
            Err(AcquireError::Timeout(_)) => Self::Timeout,
            Err(AcquireError::Overloaded(_)) => Self::Overloaded,
            Err(AcquireError::NotReplicated(error)) if error.is_reentry() => Self::Rejected,
            // The store or its replicas were out of reach.
            Err(AcquireError::Unavailable(_) | AcquireError::NotReplicated(_)) => Self::Unavailable,
            Err(AcquireError::Rejected(_)) => Self::Rejected,
            Err(AcquireError::Closed(_)) => Self::Closed,
            // The wait ended in a grant; that the hold was lost is counted by its reason.
            Err(AcquireError::Lost(_)) => Self::Granted,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL[self as usize]
    }
}

/// The bound that refused an acquire with time left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg(feature = "metrics")]
pub(crate) enum RefusedBy {
    LineFull,
    OverBudget,
}

#[cfg(feature = "metrics")]
impl RefusedBy {
    pub(crate) const ALL: [&'static str; 2] = ["line_full", "over_budget"];

    pub(crate) fn of(error: &OverloadedError) -> Self {
        match error.bound {
            OverloadBound::Waiters(_) | OverloadBound::OwnWaiters(_) => Self::LineFull,
            OverloadBound::Budget(_) => Self::OverBudget,
        }
    }
}

/// Between whom a lock was handed on: guards of this process, claims at the store.
#[cfg(feature = "metrics")]
pub(crate) const HANDOFFS: [&str; 2] = ["local", "remote"];

/// The causes that ended a hold before its release, by [`LossReason`].
pub(crate) const LOST: [&str; 4] = ["expired", "taken", "hold_limit", "shutdown"];

/// The outcome of a request under an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg(any(feature = "metrics", feature = "idempotency"))]
#[cfg_attr(not(feature = "idempotency"), expect(dead_code))]
pub(crate) enum Repeat {
    Executed,
    Replayed,
    InFlight,
    Mismatch,
    WithoutPayload,
    Unknown,
    Failed,
}

#[cfg(any(feature = "metrics", feature = "idempotency"))]
impl Repeat {
    pub(crate) const ALL: [&'static str; 7] =
        ["executed", "replayed", "in_flight", "mismatch", "without_payload", "unknown", "failed"];

    #[cfg(feature = "idempotency")]
    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL[self as usize]
    }
}

/// How a request to the store ended: the verb, and the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Granted,
    Blocked,
    NoAttempt,
    Held,
    Lost,
    NoRenewal,
    Released,
    NotHeld,
    NoWithdrawal,
}

impl Told {
    /// The verbs that the store was asked.
    #[cfg(feature = "metrics")]
    pub(crate) const VERBS: [&'static str; 9] = [
        "attempt", "attempt", "attempt", "renew", "renew", "renew", "withdraw", "withdraw",
        "withdraw",
    ];

    /// The answers that it gave to them.
    pub(crate) const ALL: [&'static str; 9] =
        ["granted", "blocked", "fault", "held", "lost", "fault", "released", "not_held", "fault"];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL[self as usize]
    }
}

/// An answer of the store.
pub(crate) trait Answer: Sized {
    /// The verb that it answers.
    const VERB: &'static str;

    fn told(answer: &Result<Self, Fault>) -> Told;
}

impl Answer for Attempt {
    const VERB: &'static str = "attempt";

    fn told(answer: &Result<Self, Fault>) -> Told {
        match answer {
            Ok(Self::Granted(_)) => Told::Granted,
            Ok(Self::Blocked { .. }) => Told::Blocked,
            Err(_) => Told::NoAttempt,
        }
    }
}

impl Answer for Renewal {
    const VERB: &'static str = "renew";

    fn told(answer: &Result<Self, Fault>) -> Told {
        match answer {
            Ok(Self::Held(_)) => Told::Held,
            Ok(Self::Lost) => Told::Lost,
            Err(_) => Told::NoRenewal,
        }
    }
}

impl Answer for Withdrawal {
    const VERB: &'static str = "withdraw";

    fn told(answer: &Result<Self, Fault>) -> Told {
        match answer {
            Ok(Self::Released) => Told::Released,
            Ok(Self::NotHeld | Self::Elsewhere) => Told::NotHeld,
            Err(_) => Told::NoWithdrawal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::LossReason;

    #[test]
    fn each_value_has_the_name_of_its_place() {
        for (reason, name) in [
            (LossReason::Expired, "expired"),
            (LossReason::Taken, "taken"),
            (LossReason::HoldLimit, "hold_limit"),
            (LossReason::Shutdown, "shutdown"),
        ] {
            assert_eq!(LOST[reason as usize], name);
        }
        assert_eq!(WaitEnd::Granted.as_str(), "granted");
        assert_eq!(WaitEnd::Cancelled.as_str(), "cancelled");
        let told = [Told::Blocked, Told::NoRenewal, Told::NotHeld];
        assert_eq!(told.map(Told::as_str), ["blocked", "fault", "not_held"]);
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn each_counted_value_has_the_name_of_its_place() {
        assert_eq!(RefusedBy::ALL[RefusedBy::OverBudget as usize], "over_budget");
        assert_eq!(Told::VERBS[Told::NoRenewal as usize], "renew");
        assert_eq!(Told::VERBS[Told::NotHeld as usize], "withdraw");
    }
}
