//! A claim on a key of a store in this process.

use std::sync::Arc;

use tokio::sync::Notify;

use super::store::{Place, Store};
use crate::backend::{Attempt, Claim, ClaimId, Fault, FaultKind, Mode, Renewal, Terms, Withdrawal};
use crate::engine::clock;
use crate::key::Key;

/// See the module.
#[derive(Debug)]
pub struct MemoryClaim {
    store: Arc<Store>,
    key: Key,
    id: ClaimId,
    terms: Terms,
    /// The store pokes it when the claim stands elsewhere than it was told.
    news: Arc<Notify>,
}

impl MemoryClaim {
    pub(super) fn new(store: Arc<Store>, key: Key, id: ClaimId, terms: Terms) -> Self {
        Self { store, key, id, terms, news: Arc::new(Notify::new()) }
    }

    fn place(&self) -> Place {
        Place { claim: self.id, lease: self.terms.lease, news: self.news.clone() }
    }
}

impl Claim for MemoryClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        if self.terms.mode != Mode::Exclusive {
            return Err(Fault::new(FaultKind::Refused, "`memory:` serves exclusive locks only"));
        }
        let join = self.terms.patience.is_none_or(|patience| !patience.is_zero());
        let place = self.place();
        Ok(self.store.attempt(&self.key, place, self.terms.fences, join, clock::now()))
    }

    async fn changed(&mut self) {
        self.news.notified().await;
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        Ok(self.store.renew(&self.key, &self.place(), self.terms.fences, clock::now()))
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        Ok(self.store.withdraw(&self.key, self.id, self.terms.fences, clock::now()))
    }
}
