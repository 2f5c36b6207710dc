//! A subscriber of the application that panics when it is told of a lost lock: the key is served to
//! those who come, also while others who waited for it have not looked yet. In a binary of its own,
//! as the subscriber is that of all threads.

#![allow(clippy::disallowed_methods)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Fault, Renewal, Terms, Withdrawal,
};
use lock_core::memory::Memory;
use lock_core::{Background, Inspection, Key, LockClient};
use tracing::{Level, Metadata, Subscriber, span};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the subscriber has panicked.
static TOLD: AtomicU32 = AtomicU32::new(0);

struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if event.metadata().target() == "lock_core" {
            TOLD.fetch_add(1, Ordering::SeqCst);
            panic!("a subscriber of the application, as the test wants it");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A store whose client panics at a renewal.
#[derive(Debug, Clone)]
struct Frail<T> {
    inner: T,
    panics: Arc<AtomicBool>,
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
        self.inner.attempt().await
    }

    async fn changed(&mut self) -> Change {
        self.inner.changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        assert!(!self.panics.load(Ordering::SeqCst), "a store, as the test wants it");
        self.inner.renew().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.inner.withdraw().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_panics_leaves_no_key_undriven() {
    tracing::subscriber::set_global_default(Panics).expect("the first");
    let panics = Arc::new(AtomicBool::new(true));
    let store = Frail { inner: Memory::new(), panics: panics.clone() };
    let builder = LockClient::builder_with(store).background(Background::Thread);
    let locks = builder.connect().await.expect("a store in this process");
    let lease = Duration::from_millis(300);
    let held = locks.lock("k").lease(lease).await.expect("a free key");
    // It waits, and does not look again: so the key stays busy.
    let mut waits = pin!(locks.lock("k").lease(lease).wait(PATIENCE).acquire());
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::timeout(PATIENCE, async {
        while TOLD.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is told that the lock was lost");
    assert!(!held.is_held());
    panics.store(false, Ordering::SeqCst);
    let next = locks.lock("k").lease(lease).wait(PATIENCE).await.expect("it is served");
    next.release().await.expect("a release");
}
