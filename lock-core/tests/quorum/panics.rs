//! A member whose client panics is one that fails, and takes no other with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Fault, MemberClaim, Renewal, Terms,
    Withdrawal,
};
use lock_core::memory::Memory;
use lock_core::quorum::Quorum;
use lock_core::view::Inspection;
use lock_core::{Key, LockClient};
use tokio::time::sleep;

use crate::{ms, short};

#[derive(Debug, Clone)]
struct Frail<T> {
    inner: T,
    panics: Arc<AtomicBool>,
}

impl<T> Frail<T> {
    fn is_asked(&self) {
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants it");
    }
}

impl Backend for Frail<Memory> {
    type Claim = Frail<<Memory as Backend>::Claim>;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim {
        Frail { inner: self.inner.claim(key, id, terms), panics: self.panics.clone() }
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.inner.inspect(key).await
    }
}

impl<C: Claim> Claim for Frail<C> {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.is_asked();
        self.inner.attempt().await
    }

    async fn changed(&mut self) -> Change {
        self.is_asked();
        self.inner.changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.is_asked();
        self.inner.renew().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.is_asked();
        self.inner.withdraw().await
    }
}

impl<C: MemberClaim> MemberClaim for Frail<C> {
    fn count_from(&mut self, clock: u64) {
        self.inner.count_from(clock);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        self.is_asked();
        self.inner.raise(to).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_panics_costs_nothing_and_is_back_when_it_does_not() {
    let members: Vec<_> =
        (0..3).map(|_| Frail { inner: Memory::new(), panics: Arc::default() }).collect();
    let panics = members[0].panics.clone();
    let stores: Vec<_> = members.iter().map(|member| member.inner.clone()).collect();
    let locks = LockClient::with_backend(Quorum::new(members).unwrap());
    // At the renewals and the release of a hold, and at all of the next one.
    let guard = locks.lock("k").options(short()).await.unwrap();
    panics.store(true, Ordering::SeqCst);
    for guard in [Some(guard), None] {
        let guard = match guard {
            Some(guard) => guard,
            None => locks.lock("k").options(short()).await.unwrap(),
        };
        sleep(ms(5_000)).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
    panics.store(false, Ordering::SeqCst);
    let guard = locks.lock("k").options(short()).await.unwrap();
    assert!(stores.iter().all(|store| store.keys() == 1));
    guard.release().await.unwrap();
    sleep(ms(1)).await;
    assert!(stores.iter().all(|store| store.keys() == 0));
}
