//! A backend without its type.

use std::fmt;
use std::sync::Arc;

use crate::backend::{
    Attempt, Backend, Change, Claim, ClaimId, DynBackend, DynClaim, Fault, Promises, Renewal,
    Terms, Withdrawal,
};
use crate::inspect::Inspection;
use crate::key::Key;

/// Any [`Backend`], type-erased. Cheap to clone; the clones are one process to the store.
#[derive(Debug, Clone)]
pub struct AnyBackend(Arc<dyn DynBackend>);

impl AnyBackend {
    /// Takes the type away.
    pub fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }
}

impl Backend for AnyBackend {
    type Claim = AnyClaim;

    fn promises(&self) -> Promises {
        self.0.promises()
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> AnyClaim {
        AnyClaim(self.0.claim(key, id, terms))
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.0.inspect(key).await
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        self.0.request_revoke(key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        self.0.force_release(key).await
    }

    fn requests(&self) -> u64 {
        self.0.requests()
    }
}

/// A claim of an [`AnyBackend`].
pub struct AnyClaim(Box<dyn DynClaim>);

impl fmt::Debug for AnyClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyClaim").finish_non_exhaustive()
    }
}

impl Claim for AnyClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        (*self.0).attempt().await
    }

    async fn changed(&mut self) -> Change {
        (*self.0).changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        (*self.0).renew().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        (*self.0).withdraw().await
    }
}
