//! Stores that reserve a fixed number of tokens with each claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Fault, Grant, Renewal, Terms,
    TokenBlock, Withdrawal,
};
use lock_core::memory::Memory;
use lock_core::view::Inspection;
use lock_core::{Key, LockClient};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{Test, secs, settle};

/// Tokens of one claim.
const TOKENS: u64 = 7;

/// The store of this process, except that a claim has its few tokens with its grant, and no more
/// with any renewal.
#[derive(Debug, Clone, Default)]
struct Scant {
    store: Memory,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    last: AtomicU64,
    claims: AtomicU64,
    renewals: AtomicU64,
}

#[derive(Debug)]
struct ScantClaim {
    claim: <Memory as Backend>::Claim,
    counts: Arc<Counts>,
    tokens: Option<TokenBlock>,
}

impl Backend for Scant {
    type Claim = ScantClaim;

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> ScantClaim {
        self.counts.claims.fetch_add(1, Ordering::Relaxed);
        let claim = self.store.claim(key, id, terms);
        ScantClaim { claim, counts: self.counts.clone(), tokens: None }
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.store.inspect(key).await
    }
}

impl Claim for ScantClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        Ok(match self.claim.attempt().await? {
            Attempt::Granted(grant) => {
                let tokens = *self.tokens.get_or_insert_with(|| {
                    let before = self.counts.last.fetch_add(TOKENS, Ordering::Relaxed);
                    TokenBlock::new(before + 1, before + TOKENS)
                });
                Attempt::Granted(Grant { tokens, ..grant })
            }
            blocked => blocked,
        })
    }

    async fn changed(&mut self) -> Change {
        self.claim.changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.counts.renewals.fetch_add(1, Ordering::Relaxed);
        Ok(match self.claim.renew().await? {
            Renewal::Held(grant) => Renewal::Held(Grant { tokens: TokenBlock::empty(), ..grant }),
            Renewal::Lost => Renewal::Lost,
        })
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.claim.withdraw().await
    }
}

/// Takes `k` with so many tasks, each client in its turn; says under which tokens.
async fn tokens_of(
    clients: &[&LockClient],
    tasks: u32,
) -> Result<Vec<u64>, tokio::task::JoinError> {
    let (granted, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let mut set = JoinSet::new();
    for (_, client) in (0..tasks).zip(clients.iter().cycle()) {
        let (acquire, granted) = (client.lock("k").wait(secs(60)).acquire(), granted.clone());
        set.spawn(async move {
            let guard = acquire.await.expect("its turn");
            granted.send(guard.token().get()).expect("a listening test");
            // The others get into line.
            tokio::task::yield_now().await;
            guard.release().await.expect("a healthy store");
        });
    }
    while let Some(done) = set.join_next().await {
        done?;
    }
    drop(granted);
    let mut all = Vec::new();
    while let Some(token) = tokens.recv().await {
        all.push(token);
    }
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_hand_offs_go_through_claims_of_seven_tokens_without_a_pause() -> Test {
    let store = Scant::default();
    let locks = LockClient::with_backend(store.clone());
    let begun = Instant::now();
    let tokens = tokens_of(&[&locks], 1_000).await?;
    assert!(tokens.len() == 1_000 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert_eq!(begun.elapsed(), secs(0), "somebody waited for a timer");
    let claims = store.counts.claims.load(Ordering::Relaxed);
    assert_eq!(claims, 1_000_u64.div_ceil(TOKENS));
    let renewals = store.counts.renewals.load(Ordering::Relaxed);
    assert!(renewals <= claims + 1, "{renewals} renewals of {claims} claims");
    assert!(locks.shutdown(secs(1)).await.complete);
    assert_eq!(store.store.keys(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_processes_share_a_store_of_few_tokens_in_turn() -> Test {
    let store = Scant::default();
    let (one, two) =
        (LockClient::with_backend(store.clone()), LockClient::with_backend(store.clone()));
    let tokens = tokens_of(&[&one, &two], 200).await?;
    assert!(tokens.len() == 200 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    for locks in [one, two] {
        assert!(locks.stats().acquired == 100 && locks.shutdown(secs(1)).await.complete);
    }
    assert_eq!(store.store.keys(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_used_up_is_held_and_renewed_as_ever() -> Test {
    let store = Scant::default();
    let locks = LockClient::with_backend(store.clone());
    let lock = || locks.lock("k").lease(secs(9)).linger(secs(60));
    for _ in 1..TOKENS {
        lock().await?.release().await?;
    }
    let last = lock().await?;
    assert_eq!(store.counts.claims.load(Ordering::Relaxed), 1);
    let before = store.counts.renewals.load(Ordering::Relaxed);
    tokio::time::sleep(secs(90)).await;
    assert!(last.is_held());
    let renewals = store.counts.renewals.load(Ordering::Relaxed) - before;
    assert!((29..=31).contains(&renewals), "{renewals} renewals in ten leases");
    last.release().await?;
    settle().await;
    assert_eq!(store.store.keys(), 0, "no use to linger on it");
    lock().await?.release().await?;
    assert_eq!(store.counts.claims.load(Ordering::Relaxed), 2);
    assert!(locks.shutdown(secs(1)).await.complete);
    Ok(())
}
