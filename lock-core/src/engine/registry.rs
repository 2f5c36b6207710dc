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

/// The keys of one shard. Most are young when they go, so the conductor's sweep is as short as what
/// is new.
#[derive(Debug, Default)]
struct Shard {
    young: HashMap<Key, Arc<KeyCell>>,
    grown_up: HashMap<Key, Arc<KeyCell>>,
}

impl Shard {
    fn get(&self, key: &Key) -> Option<&Arc<KeyCell>> {
        self.young.get(key).or_else(|| self.grown_up.get(key))
    }

    fn remove(&mut self, key: &Key) {
        if self.young.remove(key).is_none() {
            self.grown_up.remove(key);
        }
        for cells in [&mut self.young, &mut self.grown_up] {
            if cells.is_empty() {
                cells.shrink_to(64);
            }
        }
    }

    fn cells(&self) -> impl Iterator<Item = &Arc<KeyCell>> {
        self.young.values().chain(self.grown_up.values())
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Registry {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The cell of a key, made by `make` if the key was idle.
    pub(super) fn cell(&self, key: &Key, make: impl FnOnce() -> Arc<KeyCell>) -> Arc<KeyCell> {
        let mut shard = lock(self.shard(key));
        if let Some(cell) = shard.get(key) {
            return cell.clone();
        }
        let cell = make();
        shard.young.insert(key.clone(), cell.clone());
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
        }
        Some(cohort.counters())
    }

    pub(super) fn cells(&self) -> Vec<Arc<KeyCell>> {
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).cells().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// The young cells, which are grown up from here on.
    pub(super) fn grown_up(&self) -> Vec<Arc<KeyCell>> {
        let mut swept = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let Shard { young, grown_up } = &mut *shard;
            swept.extend(young.values().cloned());
            grown_up.extend(young.drain());
        }
        swept
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).cells().next().is_none())
    }
}
