//! Keys below a prefix, whatever the store: its client names them without.

use std::sync::Arc;
use std::time::Duration;

use super::{
    BoxFuture, Capabilities, ClaimId, ConnectError, DynBackend, DynClaim, Fault, Follower,
    Inspection, Terms,
};
use crate::key::{Key, too_long};
use crate::limits::PREFIX_BYTES_MAX;
use crate::view::{Holder, KeyList};

/// A prefix that keys can be below.
#[derive(Debug)]
pub(crate) struct Prefix(Key);

impl Prefix {
    pub(crate) fn new(text: &str) -> Result<Self, ConnectError> {
        let key = Key::new(text).map_err(ConnectError::Prefix)?;
        match key.as_str().len() {
            0..=PREFIX_BYTES_MAX => Ok(Self(key)),
            bytes => Err(ConnectError::Prefix(too_long(text, bytes, PREFIX_BYTES_MAX))),
        }
    }

    /// The store, with all keys below this prefix.
    pub(crate) fn over(self, store: Arc<dyn DynBackend>) -> Arc<dyn DynBackend> {
        Arc::new(Prefixed { store, prefix: self.0 })
    }
}

/// A store whose keys are below a prefix.
#[derive(Debug)]
struct Prefixed {
    store: Arc<dyn DynBackend>,
    prefix: Key,
}

impl Prefixed {
    /// The key as the store has it. It was seen to fit, see
    /// [`Capabilities::key_bytes_max`](super::Capabilities).
    fn place(&self, key: &Key) -> Key {
        key.below(&self.prefix)
    }
}

impl DynBackend for Prefixed {
    fn capabilities(&self) -> Capabilities {
        let capabilities = self.store.capabilities();
        let taken = self.prefix.as_str().len() + 1;
        let key_bytes_max = capabilities.key_bytes_max.saturating_sub(taken);
        Capabilities { key_bytes_max, ..capabilities }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim> {
        self.store.claim(&self.place(key), id, terms)
    }

    fn candidate(
        &self,
        key: &Key,
        id: ClaimId,
        terms: Terms,
        value: &Arc<str>,
    ) -> Box<dyn DynClaim> {
        self.store.candidate(&self.place(key), id, terms, value)
    }

    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim> {
        self.store.forced(&self.place(key), id, terms)
    }

    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
        self.store.follow(&self.place(key), lease)
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, Fault>> {
        let key = self.place(key);
        Box::pin(async move { self.store.inspect(&key).await })
    }

    fn holder<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Holder>, Fault>> {
        let key = self.place(key);
        Box::pin(async move { self.store.holder(&key).await })
    }

    fn request_revoke<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>> {
        let key = self.place(key);
        Box::pin(async move { self.store.request_revoke(&key).await })
    }

    fn force_release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>> {
        let key = self.place(key);
        Box::pin(async move { self.store.force_release(&key).await })
    }

    fn list<'a>(
        &'a self,
        within: Option<&'a Key>,
        max: usize,
    ) -> BoxFuture<'a, Result<KeyList, Fault>> {
        let place = within.map_or_else(|| self.prefix.clone(), |within| self.place(within));
        Box::pin(async move {
            let KeyList { keys, is_whole } = self.store.list(Some(&place), max).await?;
            let keys = keys.iter().filter_map(|key| key.within(&self.prefix)).collect();
            Ok(KeyList { keys, is_whole })
        })
    }

    fn requests(&self) -> u64 {
        self.store.requests()
    }

    fn prefix(&self) -> Option<&Key> {
        Some(&self.prefix)
    }
}
