//! The busy keys of one client. A key is here from its first waiter on until its last guard,
//! waiter and request are gone.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::cell::KeyCell;
use crate::ground::lock;
use crate::key::Key;
use crate::proto::Counters;

/// Tasks of different keys rarely meet at one mutex.
const SHARDS: usize = 32;

/// As many keys as a shard keeps room for.
const ROOM: usize = 64;

/// A key is hashed once: its cell knows what came out.
type Cells = HashTable<Arc<KeyCell>>;

/// The keys of one shard. Most are young when they go, so the conductor's sweep is as short as what
/// is new.
#[derive(Debug, Default)]
struct Shard {
    young: Cells,
    grown_up: Cells,
}

impl Shard {
    fn remove(&mut self, cell: &Arc<KeyCell>) {
        for cells in [&mut self.young, &mut self.grown_up] {
            if let Ok(found) = cells.find_entry(cell.hash(), |other| Arc::ptr_eq(other, cell)) {
                found.remove();
                if cells.is_empty() {
                    cells.shrink_to(ROOM, |cell| cell.hash());
                }
                return;
            }
        }
    }

    fn cells(&self) -> impl Iterator<Item = &Arc<KeyCell>> {
        self.young.iter().chain(&self.grown_up)
    }
}

/// The busy keys of one client, in shards by their hashes.
#[derive(Debug)]
pub(super) struct Registry {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The table within goes by other bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// The cell of a key, made by `make` from its hash if the key was idle.
    pub(super) fn cell(&self, key: &Key, make: impl FnOnce(u64) -> Arc<KeyCell>) -> Arc<KeyCell> {
        let hash = self.hasher.hash_one(key);
        let mut shard = lock(self.shard(hash));
        let Shard { young, grown_up } = &mut *shard;
        if let Some(cell) = grown_up.find(hash, |cell| cell.is_of(key)) {
            return cell.clone();
        }
        match young.entry(hash, |cell| cell.is_of(key), |cell| cell.hash()) {
            Entry::Occupied(cell) => cell.get().clone(),
            Entry::Vacant(place) => place.insert(make(hash)).get().clone(),
        }
    }

    /// A further cell of a key, made by `make` from its hash.
    pub(super) fn add(&self, key: &Key, make: impl FnOnce(u64) -> Arc<KeyCell>) -> Arc<KeyCell> {
        let hash = self.hasher.hash_one(key);
        let cell = make(hash);
        let young = &mut lock(self.shard(hash)).young;
        young.insert_unique(hash, cell.clone(), |cell| cell.hash());
        cell
    }

    /// Takes a cell off if it has nothing left to do, and gives what it counted.
    pub(super) fn retire(&self, cell: &Arc<KeyCell>, by_driver: bool) -> Option<Counters> {
        let mut shard = lock(self.shard(cell.hash()));
        let mut cohort = cell.cohort();
        if !cohort.retire(by_driver) {
            return None;
        }
        shard.remove(cell);
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
            swept.extend(young.iter().cloned());
            grown_up.reserve(young.len(), |cell| cell.hash());
            for cell in young.drain() {
                grown_up.insert_unique(cell.hash(), cell, |cell| cell.hash());
            }
        }
        swept
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).cells().next().is_none())
    }
}
