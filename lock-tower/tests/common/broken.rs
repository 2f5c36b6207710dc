//! A store that answers with nothing but faults.

use std::time::Duration;

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Capabilities, Claim, ClaimId, Fault, FaultKind, NotReplicated, Renewal,
    Terms, Withdrawal,
};
use lock_core::view::Inspection;

/// A store that answers so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Broken(pub(crate) fn() -> Fault);

pub(crate) fn out_of_reach() -> Fault {
    Fault::new(FaultKind::Transient, "connection refused")
}

pub(crate) fn password_refused() -> Fault {
    Fault::new(FaultKind::Refused, "WRONGPASS secret")
}

pub(crate) fn unreplicated() -> Fault {
    let timeout = Duration::from_millis(50);
    Fault::not_replicated(NotReplicated { wanted: 1, acknowledged: 0, timeout })
}

impl Backend for Broken {
    type Claim = Self;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.fencing = true;
        capabilities.replicas = true;
        capabilities.in_process = true;
        capabilities
    }

    fn claim(&self, _: &Key, _: ClaimId, _: Terms) -> Self {
        *self
    }

    async fn inspect(&self, _: &Key) -> Result<Inspection, Fault> {
        Err((self.0)())
    }
}

impl Claim for Broken {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        Err((self.0)())
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        Err((self.0)())
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        Ok(Withdrawal::NotHeld)
    }
}
