//! The busy keys of one client. A key is here from its first waiter on until its last guard,
//! waiter and request are gone.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Kept;
use crate::ground::lock;
use crate::key::Key;
use crate::proto::Counters;

/// Tasks of different keys rarely meet at one mutex.
const SHARDS: usize = 32;

/// As many keys as a shard keeps room for.
const ROOM: usize = 64;

/// A key is hashed once: its cell knows what came out.
type Cells<K> = HashTable<Arc<K>>;

/// The keys of one shard. Most are young when they go, so the conductor's sweep is as short as what
/// is new.
#[derive(Debug)]
struct Shard<K> {
    young: Cells<K>,
    grown_up: Cells<K>,
    /// The counts of keys that are gone.
    past: Counters,
}

impl<K: Kept> Shard<K> {
    fn new() -> Self {
        let (young, grown_up) = (HashTable::new(), HashTable::new());
        Self { young, grown_up, past: Counters::default() }
    }

    fn remove(&mut self, cell: &Arc<K>) {
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

    fn cells(&self) -> impl Iterator<Item = &Arc<K>> {
        self.young.iter().chain(&self.grown_up)
    }
}

/// The busy keys of one client, in shards by their hashes.
#[derive(Debug)]
pub(in crate::engine) struct Registry<K> {
    shards: Box<[Mutex<Shard<K>>]>,
    hasher: RandomState,
}

impl<K: Kept> Registry<K> {
    pub(in crate::engine) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new())).collect();
        Self { shards, hasher: RandomState::new() }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<K>> {
        // The table within goes by other bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// The cell of a key, made by `make` from its hash if the key was idle.
    pub(in crate::engine) fn cell(&self, key: &Key, make: impl FnOnce(u64) -> Arc<K>) -> Arc<K> {
        let hash = self.hasher.hash_one(key);
        let mut shard = lock(self.shard(hash));
        let Shard { young, grown_up, .. } = &mut *shard;
        if let Some(cell) = grown_up.find(hash, |cell| cell.is_of(key)) {
            return cell.clone();
        }
        match young.entry(hash, |cell| cell.is_of(key), |cell| cell.hash()) {
            Entry::Occupied(cell) => cell.get().clone(),
            Entry::Vacant(place) => place.insert(make(hash)).get().clone(),
        }
    }

    /// A further cell of a key, made by `make` from its hash.
    pub(in crate::engine) fn add(&self, key: &Key, make: impl FnOnce(u64) -> Arc<K>) -> Arc<K> {
        let hash = self.hasher.hash_one(key);
        let cell = make(hash);
        let young = &mut lock(self.shard(hash)).young;
        young.insert_unique(hash, cell.clone(), |cell| cell.hash());
        cell
    }

    /// Takes a cell off if that has nothing left to do, and gives what it has counted; whether it
    /// did.
    pub(in crate::engine) fn retire(
        &self,
        cell: &Arc<K>,
        retire: impl FnOnce(&K) -> Option<Counters>,
    ) -> bool {
        let mut shard = lock(self.shard(cell.hash()));
        let Some(counted) = retire(cell) else { return false };
        shard.past.add(counted);
        shard.remove(cell);
        true
    }

    /// Shows what was counted by keys that are gone, and the cells of those that are there, shard by
    /// shard: meanwhile none of it goes from the one to the other.
    pub(in crate::engine) fn each_shard(&self, mut see: impl FnMut(Counters, &[&Arc<K>])) {
        for shard in &self.shards {
            let shard = lock(shard);
            see(shard.past, &shard.cells().collect::<Vec<_>>());
        }
    }

    pub(in crate::engine) fn cells(&self) -> Vec<Arc<K>> {
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).cells().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// The young cells, which are grown up from here on.
    pub(in crate::engine) fn grown_up(&self) -> Vec<Arc<K>> {
        let mut swept = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let Shard { young, grown_up, .. } = &mut *shard;
            swept.extend(young.iter().cloned());
            grown_up.reserve(young.len(), |cell| cell.hash());
            for cell in young.drain() {
                grown_up.insert_unique(cell.hash(), cell, |cell| cell.hash());
            }
        }
        swept
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).cells().next().is_none())
    }
}
