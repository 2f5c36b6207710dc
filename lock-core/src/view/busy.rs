//! The busy keys of one client, for those who watch a service.

use std::time::Duration;

use crate::key::Key;
use crate::mode::Mode;
use crate::token::FencingToken;

/// A key that is held, waited for, or being asked for in this client at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BusyKey {
    /// The key.
    pub key: Key,
    /// The guards of this client that hold it: none, one, or several that share it.
    pub guards: Vec<BusyHold>,
    /// Waiters of this client.
    pub waiters: usize,
    /// Acquires of this key that were refused by admission, at arrival or in line, since it became
    /// busy.
    pub refused: u64,
    /// How long it was held of late; `None` until two tasks wanted it at once.
    pub holds: Option<Quantiles>,
    /// How long those who were granted it had waited of late; `None` as for `holds`.
    pub waits: Option<Quantiles>,
}

impl BusyKey {
    /// Adds others of this client who hold the same key, or wait for it.
    pub(crate) fn add(&mut self, other: Self) {
        self.guards.extend(other.guards);
        self.waiters += other.waiters;
        self.refused += other.refused;
    }
}

/// A hold by a guard of this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BusyHold {
    /// How it holds the key.
    pub mode: Mode,
    /// Its token.
    pub token: FencingToken,
    /// The time since it was granted.
    pub held_for: Duration,
    /// How long it is good without a renewal.
    pub lease_left: Duration,
}

/// Durations of late, within a sixteenth of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quantiles {
    /// Half were no longer.
    pub p50: Duration,
    /// Nine of ten were no longer.
    pub p90: Duration,
    /// 99 of 100 were no longer.
    pub p99: Duration,
}
