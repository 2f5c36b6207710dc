//! The capabilities of a store, as data that a user can ask for.

use std::time::Duration;

use super::DURATION_MAX;
#[cfg(doc)]
use super::{MemberClaim, Mode, Terms};

/// The capabilities of a backend, as data that a user can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Every grant carries a token greater than all before it.
    pub fencing: bool,
    /// Claims are granted in their order of arrival at the store. One that comes when a lease has
    /// just run out may be granted first.
    pub fifo: bool,
    /// A grant is pushed to its claim, so that it need not poll.
    pub push: bool,
    /// [`Mode::Shared`] is served.
    pub shared: bool,
    /// [`Mode::Permit`] is served.
    pub permits: bool,
    /// Elections are served: [`Backend::candidate`](super::Backend::candidate) and
    /// [`Claim::follow`](super::Claim::follow).
    pub election: bool,
    /// A holder can be asked to give the key up, and is told so.
    pub revocation: bool,
    /// A key can be taken away from its holder.
    pub force_release: bool,
    /// It can be a member of a [`Quorum`](crate::quorum::Quorum): its claims serve [`MemberClaim`].
    pub quorum: bool,
    /// A grant can wait for replicas: [`Terms::replicas`] is served.
    pub replicas: bool,
    /// Its requests need no I/O: the store is in this process. See
    /// [`Background`](crate::options::Background).
    pub in_process: bool,
    /// The shortest lease that the backend can renew in time.
    pub lease_min: Duration,
    /// The longest lease that may be asked for. A quorum that sees to its members has one: it keeps
    /// members that lost their data away for so long.
    pub lease_max: Duration,
}

impl Capabilities {
    /// No capability, and leases from 10 ms to 24 h. Set the fields that hold.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            fencing: false,
            fifo: false,
            push: false,
            shared: false,
            permits: false,
            election: false,
            revocation: false,
            force_release: false,
            quorum: false,
            replicas: false,
            in_process: false,
            lease_min: Duration::from_millis(10),
            lease_max: DURATION_MAX,
        }
    }
}
