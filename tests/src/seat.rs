//! A claim at the seam, for tests of one store: each verb when the test says so.

use std::time::Duration;

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Claim, ClaimId, Fault, Grant, Mode, Renewal, Terms, Withdrawal,
};
use lock_core::test_util::{AnyBackend, AnyClaim};
use lock_core::view::Inspection;
use tokio::time::timeout;

use crate::wait::{PATIENCE, within};

/// A lease that no test waits the end of.
const LEASE: Duration = Duration::from_secs(60);

/// Between two tries at a store that fails.
const PAUSE: Duration = Duration::from_millis(20);

/// A claim that a test drives by hand.
pub struct Seat {
    claim: AnyClaim,
}

/// The holder of a key and its waiters at `backend`, now.
///
/// # Panics
///
/// Without an answer.
pub async fn seen(backend: &AnyBackend, key: &str) -> Inspection {
    backend.inspect(&Key::new(key).expect("a key")).await.expect("an inspection")
}

impl Seat {
    /// A claim that waits.
    #[must_use]
    pub fn new(backend: &AnyBackend, key: &str, mode: Mode) -> Self {
        let id = ClaimId::from_bits(fastrand::u128(..));
        let terms = Terms { mode, tokens_max: 16, ..Terms::exclusive(LEASE) };
        Self { claim: backend.claim(&Key::new(key).expect("a key"), id, terms) }
    }

    /// Asks once.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn attempt(&mut self) -> Result<Attempt, Fault> {
        within("an answer", self.claim.attempt()).await
    }

    /// Asks until that is answered: a claim is found again by its id.
    async fn answered(&mut self) -> Result<Attempt, Fault> {
        let asking = async {
            loop {
                match self.claim.attempt().await {
                    Err(fault) if fault.is_transient() => tokio::time::sleep(PAUSE).await,
                    answer => return answer,
                }
            }
        };
        within("an answer", asking).await
    }

    /// Asks, and is granted.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub async fn takes(&mut self) -> Grant {
        match self.answered().await {
            Ok(Attempt::Granted(grant)) => grant,
            answer => panic!("it should hold the key, got {answer:?}"),
        }
    }

    /// Asks, and is told to wait.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub async fn waits(&mut self) {
        match self.answered().await {
            Ok(Attempt::Blocked { .. }) => {}
            answer => panic!("it should wait, got {answer:?}"),
        }
    }

    /// Is told to wait, over faults that pass.
    pub async fn is_blocked_eventually(&mut self) {
        let blocked = async {
            loop {
                match self.claim.attempt().await {
                    Ok(Attempt::Blocked { .. }) => return,
                    Ok(granted) => panic!("it should wait, got {granted:?}"),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        within("the line", blocked).await;
    }

    /// Waits for its turn by push and by asking again, over faults that pass.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`] and on faults that do not pass.
    pub async fn is_granted(&mut self) -> Grant {
        let granted = async {
            loop {
                match self.claim.attempt().await {
                    Ok(Attempt::Granted(grant)) => return grant,
                    Ok(Attempt::Blocked { recheck, .. }) => {
                        drop(timeout(recheck, self.claim.changed()).await);
                    }
                    Err(fault) => {
                        assert!(fault.is_transient(), "{fault}");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        };
        within("its turn", granted).await
    }

    /// Waits until it is told of something.
    pub async fn is_told(&mut self) {
        within("a push", self.claim.changed()).await;
    }

    /// Renews once.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn renew(&mut self) -> Result<Renewal, Fault> {
        within("an answer", self.claim.renew()).await
    }

    /// Whether it holds the key still; asked until that is known.
    pub async fn holds(&mut self) -> bool {
        loop {
            match self.renew().await {
                Ok(renewal) => return renewal != Renewal::Lost,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Becomes a reader, asked once.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        within("an answer", self.claim.downgrade()).await
    }

    /// Becomes a reader, over faults that pass; `false` if it has lost the key.
    pub async fn downgrades(&mut self) -> bool {
        let done = async {
            loop {
                match self.claim.downgrade().await {
                    Ok(renewal) => return renewal != Renewal::Lost,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        within("the end of the downgrade", done).await
    }

    /// Leaves, asked once.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn leave(&mut self) -> Result<Withdrawal, Fault> {
        within("an answer", self.claim.withdraw()).await
    }

    /// Leaves, over faults; whether it held the key to the end.
    pub async fn leaves(&mut self) -> bool {
        let left = async {
            loop {
                match self.claim.withdraw().await {
                    Ok(answer) => return answer == Withdrawal::Released,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        timeout(PATIENCE * 2, left).await.expect("it is known whether it has left")
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}
