//! What a store must do to be a member of a quorum that sees to its members.
//!
//! Two clients whose lists of members differ may hold one key at once, and so may two holders when
//! a member has lost its data and grants again what it has granted before. So each member keeps an
//! [`Enrolment`]: which quorum it is of, and since when it may grant. Whoever comes by writes it;
//! the store only sees to it that no two write over each other.

use std::future::Future;
use std::time::Duration;

use super::{Backend, Fault};

/// A store that can be a member of a quorum, and knows it.
pub trait Member: Backend {
    /// What the store says of itself. It connects if need be.
    fn look(&self) -> impl Future<Output = Result<Look, Fault>> + Send;

    /// Writes an enrolment, if the store still has the one that was seen; `false`, and nothing
    /// written, if it has not.
    fn enrol(
        &self,
        seen: Option<&Enrolment>,
        enrolment: &Enrolment,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Attempts are served only while the store has this very enrolment, none with `None`; else
    /// they are [`FaultKind::Unready`](super::FaultKind::Unready) and do nothing. The other verbs
    /// are served as ever.
    fn serve_under(&self, enrolment: Option<&Enrolment>);
}

/// That a store is a member of a quorum. It lives for as long as the store has its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// The name of the quorum: the list of its members, or what the application calls it.
    pub quorum: String,
    /// How many members it has.
    pub members: u32,
    /// The longest lease that its clients ask for.
    pub lease_max: Duration,
    /// Drawn at random with each enrolment of a store that had none, or has lost writes.
    pub nonce: u64,
    /// The [`Look::life`] that it was written in.
    pub life: String,
    /// When it may grant, by [`Look::now`].
    pub ready_at: Duration,
    /// Its tokens are above this; `None` until the others were asked how far they are.
    pub floor: Option<u64>,
}

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Its enrolment, if it has one.
    pub enrolment: Option<Enrolment>,
    /// Another one than that of the enrolment if it may have lost writes since: it was started
    /// anew.
    pub life: String,
    /// Its clock, from some point of the past on that never changes.
    pub now: Duration,
    /// For how long it has not been started anew, at least.
    pub up_for: Duration,
    /// No token that it reserved for any key is greater.
    pub highest: u64,
}
