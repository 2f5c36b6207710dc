//! Standing for election, in the name of Curator's `LeaderLatch`. A candidate's node says what it
//! publishes from the begin on, so its grant shows it.

use std::sync::Arc;

use super::ZooKeeperClaim;
use crate::backend::{Fault, FaultKind};
use crate::zookeeper::about;
use crate::zookeeper::protocol::children::Kind;

impl ZooKeeperClaim {
    /// Has it stand for election.
    pub(in crate::zookeeper) fn publishing(mut self, value: &Arc<str>) -> Self {
        (self.kind, self.value) = (Kind::Latch, Some(value.clone()));
        self
    }

    /// Refuses what would be taken for a wish to resign.
    pub(in crate::zookeeper) fn check_value(&self) -> Result<(), Fault> {
        match &self.value {
            Some(value) if about::is_revoked(value.as_bytes()) => {
                let what = "what a candidate publishes at ZooKeeper cannot begin with `__REVOKE__`, \
                            which asks a leader to resign";
                Err(Fault::new(FaultKind::Refused, what))
            }
            _ => Ok(()),
        }
    }
}
