//! The requests of a free key without a client: the scripts, keys and arguments of a claim on one
//! server, made where a claim makes them. A benchmark sends them over a connection of its own, and
//! sees what is left of an acquire when the engine is taken away.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::claim::{Stands, add_attempt};
use crate::backend::{ClaimId, Mode};
use crate::key::Key;
use crate::redis::protocol::names::{Names, Owner};
use crate::redis::protocol::script::{ATTEMPT, WITHDRAW};
use crate::redis::topology::new_session;

/// A session as of a client that has connected.
#[derive(Debug, Clone)]
pub struct BareSession {
    session: Arc<str>,
}

/// A claim as of a waiter that has opened one. Each has an id of its own, as each acquire has.
#[derive(Debug)]
pub struct BareClaim {
    names: Names,
    id: ClaimId,
    session: Arc<str>,
    lease: Duration,
}

impl BareSession {
    /// A session with a name of its own.
    #[allow(clippy::new_without_default, reason = "no two are the same")]
    #[must_use]
    pub fn new() -> Self {
        Self { session: new_session() }
    }

    /// Loads the scripts; to be sent first, as the claims call them by their hash.
    #[must_use]
    pub fn load() -> [Cmd; 2] {
        [ATTEMPT.load(), WITHDRAW.load()]
    }

    /// A claim that would wait for its turn, with this lease.
    #[must_use]
    pub fn claim(&self, key: &Key, lease: Duration) -> BareClaim {
        BareClaim {
            names: Names::new(key),
            id: ClaimId::random(),
            session: self.session.clone(),
            lease,
        }
    }
}

impl BareClaim {
    fn owner(&self) -> Owner<'_> {
        Owner { claim: self.id, session: &self.session, of_quorum: false }
    }

    /// Takes the key if it is free.
    #[must_use]
    pub fn attempt(&self) -> Cmd {
        let mut command = ATTEMPT.on(&self.names, None, false);
        add_attempt(&mut command, self.owner(), self.lease, Stands::New, Mode::Exclusive);
        command
    }

    /// Gives it back.
    #[must_use]
    pub fn withdraw(&self) -> Cmd {
        let mut command = WITHDRAW.on(&self.names, None, false);
        command.arg(self.owner());
        command
    }
}
