//! The busy keys of one client. A key is here from its first waiter on until its last guard,
//! waiter and request are gone.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use super::cell::KeyCell;
use super::shared::lock;
use crate::key::Key;
use crate::proto::Counters;

/// Tasks of different keys rarely meet at one mutex.
const SHARDS: usize = 32;

type Shard = Mutex<HashMap<Key, Arc<KeyCell>>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Registry {
    shards: Box<[Shard]>,
    hasher: RandomState,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    fn shard(&self, key: &Key) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The cell of a key, made by `make` if the key was idle.
    pub(super) fn cell(&self, key: &Key, make: impl FnOnce() -> Arc<KeyCell>) -> Arc<KeyCell> {
        let mut shard = lock(self.shard(key));
        if let Some(cell) = shard.get(key) {
            return cell.clone();
        }
        let cell = make();
        shard.insert(key.clone(), cell.clone());
        cell
    }

    /// Takes a cell off if it has nothing left to do, and gives what it counted.
    pub(super) fn retire(&self, cell: &Arc<KeyCell>, by_driver: bool) -> Option<Counters> {
        let mut shard = lock(self.shard(cell.key()));
        let mut cohort = cell.cohort();
        if !cohort.retire(by_driver) {
            return None;
        }
        let ours = shard.get(cell.key()).is_some_and(|other| Arc::ptr_eq(other, cell));
        if ours {
            shard.remove(cell.key());
            if shard.is_empty() {
                shard.shrink_to(64);
            }
        }
        Some(cohort.counters())
    }

    pub(super) fn cells(&self) -> Vec<Arc<KeyCell>> {
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>())
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).is_empty())
    }
}
