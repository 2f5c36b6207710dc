//! The verbs that a store must have to be a member of a quorum.
//!
//! Each member has a line and a token counter of its own. Tokens have to grow whichever majority
//! grants, so the counters of the majority are raised to one number. A [`MemberClaim`] does that. A
//! quorum that the application vouches for needs no more.
//!
//! A quorum that sees to its members needs a [`Member`]. Two clients whose lists of members differ
//! may hold one key at once. So may two holders when a member has lost its data, and grants again
//! what it has granted before. Therefore each member keeps an [`Enrolment`]: which quorum it is of,
//! and since when it may grant. Whoever comes by writes it; the store only sees to it that no two
//! write over each other.

use std::future::Future;
use std::time::Duration;

use super::{Backend, Claim, Enrolment, Fault};

/// A probe of a store is good for this long, by the store's own clock.
pub const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// A claim whose tokens a quorum can count: what it is asked at a member, beside the four verbs.
/// [`Capabilities::quorum`](super::Capabilities) says whether the store of this claim serves it.
pub trait MemberClaim: Claim {
    /// Has the next verbs reserve blocks of tokens that end at `clock`, not at the store's own
    /// clock, so that the members of a quorum count alike. A store that numbers its grants in
    /// another way goes on to do so; it only costs a [`raise`](Self::raise) for most grants.
    fn count_from(&mut self, clock: u64);

    /// Moves the last reserved token of the key to `to`, if this claim holds the key by the grant
    /// that it was told of. If it does not, nothing is moved and the answer is `false`: the key was
    /// granted to another, or to this claim anew.
    ///
    /// A quorum whose members check the claim alone can give one token twice; the model in
    /// `tests/tests/quorum_model/` finds how.
    fn raise(&mut self, to: u64) -> impl Future<Output = Result<bool, Fault>> + Send;
}

/// A store that can be a member of a quorum, and knows it. The quorum counts its tokens above the
/// minimum token; the store notes the highest that it reserved.
pub trait Member: Backend<Claim: MemberClaim> {
    /// Asks the store for its enrolment, its incarnation, its clock and its highest token. It
    /// connects if need be.
    fn probe(&self) -> impl Future<Output = Result<Probe, Fault>> + Send;

    /// Writes an enrolment, if the store is still as it was seen: the same enrolment, or none, the
    /// same incarnation, and its clock no further on than [`SEEN_WITHIN`]. If it is not, nothing is
    /// written and the answer is `false`.
    ///
    /// The clock is compared for a client that was stopped between its probe and this. Where there
    /// was no enrolment at either time, it might else write over what happened meanwhile.
    fn enrol(
        &self,
        seen: &Probe,
        enrolment: &Enrolment,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// From now on, attempts and raises are served only while the store has this very enrolment and
    /// is in the incarnation that it was last probed in. With `None`, none is served. Those that
    /// are not served are [`FaultKind::Unready`](super::FaultKind::Unready) and do nothing. A
    /// withdrawal that cannot tell that it is so hands the key to nobody. Renewals are served as
    /// ever. Whoever never calls this is served as by any other store.
    fn serve_under(&self, enrolment: Option<&Enrolment>);
}

/// A store's answer to [`Member::probe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Its enrolment, if it has one.
    pub enrolment: Option<Enrolment>,
    /// Another one than that of the enrolment if it may have lost writes since: it was started
    /// anew.
    pub incarnation: String,
    /// Its clock, from some point of the past on that never changes.
    pub now: Duration,
    /// The time for which it has not been started anew, at least.
    pub up_for: Duration,
    /// No token that it reserved for any key is greater.
    pub highest: u64,
}
