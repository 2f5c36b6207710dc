//! A backend without its type.

use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, DynBackend, DynClaim, Fault, FaultKind,
    Follower, Listening, Renewal, Request, Terms, Withdrawal,
};
use crate::key::Key;
use crate::view::{Holder, Inspection, KeyList};

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

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> AnyClaim {
        AnyClaim(Some(self.0.claim(key, id, terms)))
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> AnyClaim {
        AnyClaim(Some(self.0.candidate(key, id, terms, value)))
    }

    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> AnyClaim {
        AnyClaim(Some(self.0.forced(key, id, terms)))
    }

    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
        self.0.follow(key, lease)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.0.inspect(key).await
    }

    async fn holder(&self, key: &Key) -> Result<Option<Holder>, Fault> {
        self.0.holder(key).await
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        self.0.request_revoke(key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        self.0.force_release(key).await
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        self.0.list(within, max).await
    }

    fn requests(&self) -> u64 {
        self.0.requests()
    }
}

/// A claim of an [`AnyBackend`]. A verb that is dropped before its end takes the claim with it, as
/// the engine drops none but [`changed`](Claim::changed).
pub struct AnyClaim(Option<Box<dyn DynClaim>>);

impl AnyClaim {
    async fn ask<A>(
        &mut self,
        verb: impl FnOnce(Box<dyn DynClaim>) -> Request<A>,
    ) -> Result<A, Fault> {
        let gone = || Fault::new(FaultKind::Refused, "a verb of this claim was dropped");
        let (claim, answer) = verb(self.0.take().ok_or_else(gone)?).await;
        self.0 = Some(claim);
        answer
    }
}

/// Puts the claim back.
struct Listens<'a> {
    claim: &'a mut Option<Box<dyn DynClaim>>,
    listening: Option<Listening>,
}

impl Listens<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Change> {
        let Some(listening) = &mut self.listening else { return Poll::Pending };
        let (claim, change) = ready!(listening.poll(cx));
        (*self.claim, self.listening) = (Some(claim), None);
        change.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Listens<'_> {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take() {
            *self.claim = listening.stop();
        }
    }
}

impl fmt::Debug for AnyClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyClaim").finish_non_exhaustive()
    }
}

impl Claim for AnyClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.ask(|claim| claim.attempt()).await
    }

    async fn changed(&mut self) -> Change {
        let Some(claim) = self.0.take() else { return pending().await };
        let mut listens = Listens { claim: &mut self.0, listening: Some(claim.changed()) };
        poll_fn(|cx| listens.poll(cx)).await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.ask(|claim| claim.renew()).await
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.ask(|claim| claim.downgrade()).await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.ask(|claim| claim.withdraw()).await
    }
}
