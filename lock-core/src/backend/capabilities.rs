//! The capabilities of a store, as data that a user can ask for.

use std::time::Duration;

use super::DURATION_MAX;
#[cfg(doc)]
use super::{MemberClaim, Mode, Terms};
use crate::key::{Key, KeyError, too_long};
use crate::limits::KEY_BYTES_MAX;

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
    /// [`Backend::follow`](super::Backend::follow).
    pub election: bool,
    /// A holder can be asked to give the key up, and is told so.
    pub revocation: bool,
    /// A key can be taken away from its holder.
    pub force_release: bool,
    /// One who wants a key can take it from all who hold it, ahead of the line:
    /// [`Backend::forced`](super::Backend::forced).
    pub force_acquire: bool,
    /// The keys that are busy in any process can be listed.
    pub listing: bool,
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
    /// The longest key, in bytes of its encoded form; [`KEY_BYTES_MAX`] at most. A
    /// [`prefix`](crate::ClientBuilder::prefix) of the client takes its part of it.
    pub key_bytes_max: usize,
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
            force_acquire: false,
            listing: false,
            quorum: false,
            replicas: false,
            in_process: false,
            lease_min: Duration::from_millis(10),
            lease_max: DURATION_MAX,
            key_bytes_max: KEY_BYTES_MAX,
        }
    }

    /// Refuses a key that is too long for the store.
    #[inline]
    pub(crate) fn check_key(&self, key: &Key) -> Result<(), KeyError> {
        match key.as_str().len() {
            bytes if bytes > self.key_bytes_max => {
                Err(too_long(key.as_str(), bytes, self.key_bytes_max))
            }
            _ => Ok(()),
        }
    }
}
