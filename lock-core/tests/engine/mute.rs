//! A store that has no answer for those who do not hold the key.

use lock_core::Key;
use lock_core::backend::{Backend, Capabilities, ClaimId, Fault, FaultKind, Terms};
use lock_core::memory::Memory;
use lock_core::view::Inspection;

/// Never answers who asks for a key or takes it away, whatever it promises.
#[derive(Debug)]
pub(crate) struct Mute {
    store: Memory,
    capabilities: Capabilities,
}

impl Mute {
    /// One that promises what the memory store does, but for what `change` changes.
    pub(crate) fn new(change: impl FnOnce(&mut Capabilities)) -> Self {
        let store = Memory::new();
        let mut capabilities = store.capabilities();
        change(&mut capabilities);
        Self { store, capabilities }
    }
}

impl Backend for Mute {
    type Claim = <Memory as Backend>::Claim;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim {
        self.store.claim(key, id, terms)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.store.inspect(key).await
    }

    async fn request_revoke(&self, _: &Key) -> Result<bool, Fault> {
        Err(Fault::new(FaultKind::Transient, "no answer"))
    }

    async fn force_release(&self, _: &Key) -> Result<bool, Fault> {
        Err(Fault::new(FaultKind::Transient, "no answer"))
    }
}
