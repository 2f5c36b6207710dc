//! Everything that can become of an acquire, a hold and a request.

use lock_core::backend::{Backend, Claim, FaultKind, Terms};
use lock_core::error::LossReason;
use lock_core::memory::Memory;
use lock_core::test_util::{Act, Script, Scripted, Verb};
use lock_core::{Key, LockClient};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{SECRET, Test, ms, secs, settle};

/// One store, a client whose requests follow the script, and one whose requests are all served.
pub(crate) struct Stage {
    store: Memory,
    script: Script,
    locks: LockClient,
    rival: LockClient,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let store = Memory::new();
        let (backend, script) = Scripted::new(store.clone());
        let rival = LockClient::with_backend(store.clone());
        Self { store, script, locks: LockClient::with_backend(backend), rival }
    }

    pub(crate) async fn every_wait(&self) -> Test {
        let locks = &self.locks;
        let held = locks.lock(SECRET).await?;
        assert!(locks.lock(SECRET).wait(ms(10)).await.unwrap_err().is_timeout());
        assert!(locks.lock(SECRET).lease(ms(0)).await.unwrap_err().is_rejected());
        let waiter = tokio::spawn(locks.lock(SECRET).acquire());
        settle().await;
        waiter.abort();
        settle().await;
        held.release().await?;
        self.script.next(Verb::Attempt, Act::Err(FaultKind::Refused));
        assert!(locks.lock(SECRET).await.unwrap_err().is_unavailable());
        let closed = LockClient::memory();
        closed.shutdown(ms(0)).await;
        assert!(closed.lock(SECRET).await.unwrap_err().is_closed());
        Ok(())
    }

    pub(crate) async fn a_full_line(&self) -> Test {
        let narrow = LockClient::builder("memory:").waiters_per_key_max(1).connect().await?;
        let held = narrow.lock(SECRET).await?;
        let waiter = tokio::spawn(narrow.lock(SECRET).acquire());
        settle().await;
        assert!(narrow.lock(SECRET).await.unwrap_err().is_overloaded());
        held.release().await?;
        drop(waiter.await??);
        settle().await;
        Ok(())
    }

    pub(crate) async fn a_wait_of_no_use(&self) -> Test {
        let mut holders = JoinSet::new();
        for _ in 0..20 {
            let acquire = self.locks.lock(SECRET).wait(secs(60)).acquire();
            holders.spawn(async move {
                let guard = acquire.await?;
                sleep(ms(100)).await;
                guard.release().await?;
                Test::Ok(())
            });
        }
        sleep(ms(1_050)).await;
        let hasty = self.locks.lock(SECRET).wait(ms(200)).admission(true);
        assert!(hasty.await.unwrap_err().is_overloaded());
        while let Some(holder) = holders.join_next().await {
            holder??;
        }
        settle().await;
        Ok(())
    }

    pub(crate) async fn both_hand_offs(&self) -> Test {
        let held = self.locks.lock(SECRET).await?;
        let here = tokio::spawn(self.locks.lock(SECRET).acquire());
        settle().await;
        held.release().await?;
        let held = here.await??;
        let elsewhere = tokio::spawn(self.rival.lock(SECRET).acquire());
        sleep(ms(1)).await;
        held.release().await?;
        drop(elsewhere.await??);
        settle().await;
        Ok(())
    }

    pub(crate) async fn every_loss(&self) -> Test {
        let locks = &self.locks;
        let limited = locks.lock(SECRET).hold_limit(ms(5)).await?;
        assert_eq!(limited.lost().await.reason(), LossReason::HoldLimit);
        drop(limited);
        self.script.always(Verb::Renew, Act::Err(FaultKind::Transient));
        let expired = locks.lock(SECRET).lease(secs(3)).await?;
        assert_eq!(expired.lost().await.reason(), LossReason::Expired);
        drop(expired);
        self.script.heal();
        let taken = locks.lock(SECRET).lease(secs(9)).await?;
        let (claim, _) = *self.script.claims().last().expect("one was opened");
        let terms = Terms::exclusive(secs(9));
        // Once it was held on to.
        sleep(secs(4)).await;
        self.store.claim(&Key::new(SECRET)?, claim, terms).withdraw().await?;
        assert_eq!(taken.lost().await.reason(), LossReason::Taken);
        drop(taken);
        settle().await;
        self.script.next(Verb::Withdraw, Act::Err(FaultKind::Transient));
        locks.lock(SECRET).await?.release().await?;
        let abandoned = locks.lock(SECRET).await?;
        locks.shutdown(ms(1)).await;
        assert_eq!(abandoned.lost().await.reason(), LossReason::Shutdown);
        Ok(())
    }

    /// A claim that gives up behind a rival held nothing.
    pub(crate) async fn a_wait_in_vain(&self) -> Test {
        let held = self.rival.lock(SECRET).await?;
        assert!(self.locks.lock(SECRET).wait(secs(1)).await.unwrap_err().is_timeout());
        settle().await;
        held.release().await?;
        Ok(())
    }
}
