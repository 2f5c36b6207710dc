//! A lock store in this process: for tests, for development without a server, for services that
//! run as one process, and as the model that the other backends are measured against.
//!
//! It keeps every promise but survival. The line is FIFO. Grants carry fencing tokens and are
//! pushed. The next in line takes over a lease that ends at once. A holder that is asked to give
//! way is told. Tokens follow the wall clock, so that they grow across restarts of the process as
//! well.

// Files:
//
// - `claim`: the verbs of one claim. `follower`: those of one who follows an election.
// - `store`: the keys.
// - `member`: the store as a member of a quorum. `failing`: faults, for tests.
// - `driver`: its line in the table of drivers.

mod claim;
pub(crate) mod driver;
#[cfg(feature = "test-util")]
mod failing;
mod follower;
mod member;
mod store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use claim::MemoryClaim;
#[cfg(feature = "test-util")]
pub use failing::MemoryImage;
use follower::MemoryFollower;
use member::Door;
use store::{Moment, Store};

use crate::backend::{Backend, Capabilities, ClaimId, Fault, Follower, Terms};
use crate::ground::clock;
use crate::key::Key;
use crate::view::{Inspection, KeyList};

/// Stores by name, as long as a client of theirs lives.
static NAMED: OnceLock<Mutex<HashMap<String, Weak<Store>>>> = OnceLock::new();

/// A lock store in this process. A clone is one more client of the same store.
#[derive(Debug)]
pub struct Memory {
    store: Arc<Store>,
    door: Arc<Door>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::of(self.store.clone())
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// A store that nobody else can share.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Arc::new(Store::new()))
    }

    fn of(store: Arc<Store>) -> Self {
        Self { store, door: Arc::default() }
    }

    fn moment(&self) -> Moment {
        Moment { now: clock::now(), tokens_at: None, gate: self.door.gate() }
    }

    /// The store of this name, shared by all who use it in this process.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let stores = NAMED.get_or_init(Mutex::default);
        let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return Self::of(store);
        }
        let store = Arc::new(Store::new());
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        Self::of(store)
    }

    /// The number of keys that the store knows of: held, waited for, or followed.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.store.keys()
    }
}

impl Backend for Memory {
    type Claim = MemoryClaim;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            fifo: true,
            push: true,
            revocation: true,
            force_release: true,
            force_acquire: true,
            listing: true,
            shared: true,
            permits: true,
            election: true,
            quorum: true,
            lease_min: Duration::from_millis(10),
            in_process: true,
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> MemoryClaim {
        MemoryClaim::new(self.store.clone(), self.door.clone(), key.clone(), id, terms)
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> MemoryClaim {
        self.claim(key, id, terms).publishing(value)
    }

    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> MemoryClaim {
        self.claim(key, id, terms).forcing()
    }

    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
        Box::new(MemoryFollower::new(self.store.clone(), key, lease))
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        Ok(self.store.inspect(key))
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        Ok(self.store.list(within, max))
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        Ok(self.store.turn(key, &self.moment(), |entry, turn| entry.request_revoke(turn)))
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        Ok(self.store.turn(key, &self.moment(), |entry, turn| entry.force_release(turn)))
    }
}
