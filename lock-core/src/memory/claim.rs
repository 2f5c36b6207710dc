//! A claim on a key of a store in this process.

use std::sync::Arc;

use tokio::sync::Notify;

use super::member::{Door, unready};
use super::store::{Entry, Moment, Store, With};
use crate::backend::register::{OtherLimit, Place, Turn};
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, Manner, MemberClaim, Renewal, Terms, Withdrawal,
};
use crate::ground::clock;
use crate::key::Key;

/// A claim on a key of a store in this process.
#[derive(Debug)]
pub struct MemoryClaim {
    store: Arc<Store>,
    key: Key,
    id: ClaimId,
    terms: Terms,
    manner: Manner,
    /// The value that it publishes, if it stands for election.
    value: Option<Arc<str>>,
    /// The store pokes it when the claim stands elsewhere than it was told.
    events: Arc<Notify>,
    /// It was poked, and has not asked since.
    heard: bool,
    /// The clock that its tokens end at, in a quorum.
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
        Self {
            store,
            key,
            id,
            manner: Manner::of(&terms),
            terms,
            value: None,
            events,
            heard: false,
            tokens_at: None,
            door,
        }
    }

    /// Has it stand for election.
    pub(super) fn publishing(mut self, value: &Arc<str>) -> Self {
        self.value = Some(value.clone());
        self
    }

    /// Has it take the key from all who hold it.
    pub(super) fn forcing(mut self) -> Self {
        self.manner = Manner::Forces;
        self
    }

    fn moment(&self) -> Moment {
        Moment { now: clock::now(), tokens_at: self.tokens_at, gate: self.door.gate() }
    }

    fn place(&self) -> Place<With> {
        let Terms { lease, mode, tokens_max, .. } = self.terms;
        // The store is told of every claim that goes: none has to ask again.
        let due = None;
        let (events, value) = (self.events.clone(), self.value.clone());
        let with = With { events, value, terms: self.terms };
        Place { claim: self.id, mode, lease, tokens_max, due, with }
    }

    fn turn<A>(&self, ask: impl FnOnce(&mut Entry, &Turn<'_, With>) -> A) -> A {
        self.store.turn(&self.key, &self.moment(), ask)
    }
}

impl Claim for MemoryClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.heard = false;
        let (place, manner) = (self.place(), self.manner);
        let ask = |entry: &mut Entry, turn: &Turn<'_, _>| match manner {
            _ if !turn.may_grant => Err(unready()),
            Manner::Forces => Ok(Ok(Attempt::Granted(entry.take_over(place, turn)))),
            _ => Ok(entry.attempt(place, manner == Manner::Queues, turn)),
        };
        self.turn(ask)?.map_err(|OtherLimit(limit)| Fault::other_limit(limit))
    }

    async fn changed(&mut self) -> Change {
        if !self.heard {
            self.events.notified().await;
            self.heard = true;
            // One poke may be for this and for more, so the next look says that, too.
            if self.turn(|entry, _| entry.was_tried(self.id)) {
                return Change::Tried;
            }
        }
        Change::Here
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.heard = false;
        let (id, lease, mints) = (self.id, self.terms.lease, self.tokens_at.is_none());
        Ok(self.turn(|entry, turn| entry.renew(id, lease, mints, turn)))
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.heard = false;
        let (id, lease) = (self.id, self.terms.lease);
        Ok(self.turn(|entry, turn| entry.downgrade(id, lease, turn)))
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        Ok(self.turn(|entry, turn| entry.withdraw(self.id, turn)))
    }
}

impl MemberClaim for MemoryClaim {
    fn count_from(&mut self, clock: u64) {
        self.tokens_at = Some(clock);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        self.turn(|entry, turn| {
            if turn.may_grant { Ok(entry.raise(self.id, to, turn.now)) } else { Err(unready()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::backend::{Backend, Claim, ClaimId, Terms};
    use crate::key::Key;
    use crate::memory::Memory;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_until_the_store_was_asked() -> Result<(), Box<dyn std::error::Error>>
    {
        let (store, key) = (Memory::new(), Key::new("k")?);
        let lease = Duration::from_secs(1);
        let terms = Terms::exclusive(lease);
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
