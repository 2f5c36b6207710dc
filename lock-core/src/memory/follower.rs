//! One who follows an election in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::store::Store;
use crate::backend::{BoxFuture, ClaimId, Fault, Follower, Following};
use crate::key::Key;

/// One who follows the election on a key of a store in this process.
#[derive(Debug)]
pub(super) struct MemoryFollower {
    store: Arc<Store>,
    key: Key,
    id: ClaimId,
    lease: Duration,
    /// The store pokes it when another leads.
    events: Arc<Notify>,
    /// It was poked, and has not asked since.
    heard: bool,
}

impl MemoryFollower {
    pub(super) fn new(store: Arc<Store>, key: &Key, lease: Duration) -> Self {
        let (id, events) = (ClaimId::random(), Arc::new(Notify::new()));
        Self { store, key: key.clone(), id, lease, events, heard: false }
    }
}

impl Follower for MemoryFollower {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async {
            self.heard = false;
            let (leader, left) = self.store.follow(&self.key, self.id, &self.events);
            // A leader that comes or goes is told of, but not one that dies.
            Ok(Following { leader, recheck: left.unwrap_or(self.lease) })
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if !self.heard {
                self.events.notified().await;
                self.heard = true;
            }
        })
    }
}

impl Drop for MemoryFollower {
    fn drop(&mut self) {
        self.store.unfollow(&self.key, self.id);
    }
}
