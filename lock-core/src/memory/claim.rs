//! A claim on a key of a store in this process.

use std::sync::Arc;

use tokio::sync::Notify;

use super::member::{Door, unready};
use super::store::{Moment, Place, Store};
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, FaultKind, MemberClaim, Mode, Renewal, Terms,
    Withdrawal,
};
use crate::engine::clock;
use crate::key::Key;

/// A claim on a key of a store in this process.
#[derive(Debug)]
pub struct MemoryClaim {
    store: Arc<Store>,
    key: Key,
    id: ClaimId,
    terms: Terms,
    /// The store pokes it when the claim stands elsewhere than it was told.
    events: Arc<Notify>,
    /// It was poked, and has not asked since.
    heard: bool,
    /// Where its tokens end, in a quorum.
    tokens_at: Option<u64>,
    door: Arc<Door>,
}

impl MemoryClaim {
    pub(super) fn new(
        store: Arc<Store>,
        door: Arc<Door>,
        key: Key,
        id: ClaimId,
        terms: Terms,
    ) -> Self {
        let events = Arc::new(Notify::new());
        Self { store, key, id, terms, events, heard: false, tokens_at: None, door }
    }

    fn moment(&self) -> Moment {
        Moment { now: clock::now(), tokens_at: self.tokens_at, gate: self.door.gate() }
    }

    fn place(&self) -> Place {
        let Terms { lease, tokens_max, .. } = self.terms;
        Place { claim: self.id, lease, tokens_max, events: self.events.clone() }
    }
}

impl Claim for MemoryClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        if self.terms.mode != Mode::Exclusive {
            return Err(Fault::new(FaultKind::Refused, "`memory:` serves exclusive locks only"));
        }
        self.heard = false;
        let join = self.terms.queues;
        let place = self.place();
        self.store.attempt(&self.key, place, join, &self.moment()).ok_or_else(unready)
    }

    async fn changed(&mut self) -> Change {
        if !self.heard {
            self.events.notified().await;
            self.heard = true;
        }
        Change::Here
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.heard = false;
        Ok(self.store.renew(&self.key, &self.place(), &self.moment()))
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        Ok(self.store.withdraw(&self.key, self.id, &self.moment()))
    }
}

impl MemberClaim for MemoryClaim {
    fn count_from(&mut self, clock: u64) {
        self.tokens_at = Some(clock);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        self.store.raise(&self.key, self.id, to, &self.moment()).ok_or_else(unready)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::backend::{Backend, Claim, ClaimId, Mode, Terms};
    use crate::key::Key;
    use crate::memory::Memory;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_until_the_store_was_asked() -> Result<(), Box<dyn std::error::Error>>
    {
        let (store, key) = (Memory::new(), Key::new("k")?);
        let lease = Duration::from_secs(1);
        let terms = Terms {
            lease,
            mode: Mode::Exclusive,
            tokens_max: 1,
            queues: true,
            name: None,
            replicas: None,
        };
        let mut holder = store.claim(&key, ClaimId::from_bits(1), terms);
        let mut waiter = store.claim(&key, ClaimId::from_bits(2), terms);
        holder.attempt().await?;
        waiter.attempt().await?;
        for _ in 0..2 {
            tokio::time::timeout(lease, holder.changed()).await?;
        }
        holder.renew().await?;
        assert!(tokio::time::timeout(lease, holder.changed()).await.is_err());
        Ok(())
    }
}
