//! An application that is blocked, and a conductor that is not.

use std::time::Duration;

use lock_core::Key;
use lock_core::backend::{Backend, ClaimId, Terms};
use lock_core::options::Replicas;
use lock_core::redis::Redis;
use lock_core::test_util::as_conductor;
pub(crate) use tests::blocked::{Application, alone};
use tests::wait::within;

pub(crate) type Claim = <Redis as Backend>::Claim;

/// Has this done by the conductor of a client, on this thread.
pub(crate) fn conduct<T>(work: impl Future<Output = T>) -> T {
    let _here = as_conductor();
    alone().block_on(within("what the conductor does", work))
}

pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn claim(backend: &Redis, key: &str, replicas: Option<Replicas>) -> Claim {
    let terms = Terms { tokens_max: 8, replicas, ..Terms::exclusive(LEASE) };
    let id = ClaimId::from_bits(fastrand::u128(..));
    backend.claim(&Key::new(key).expect("a key"), id, terms)
}
