//! A store that always has something to poll for: it keeps no thread, and waits end by the clock.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use lock_core::backend::{
    Attempt, Backend, BoxFuture, Capabilities, Change, Claim, ClaimId, Fault, Follower, Following,
    Grant, Renewal, Terms, TokenBlock, Withdrawal,
};
use lock_core::options::Background;
use lock_core::view::Inspection;
use lock_core::{Key, LockClient};

use crate::{Test, ms, secs};

/// What has no end.
#[derive(Debug, Clone, Copy)]
enum Endless {
    /// The key `taken` is another's, and each look finds that something has changed.
    Changes,
    /// No request for the key `taken` is answered, and each poll wakes for the next.
    Polls,
}

#[derive(Debug)]
struct EndlessClaim {
    endless: Option<Endless>,
    lease: Duration,
}

impl Backend for Endless {
    type Claim = EndlessClaim;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        (capabilities.push, capabilities.election) = (true, true);
        capabilities
    }

    fn claim(&self, key: &Key, _: ClaimId, terms: Terms) -> EndlessClaim {
        let endless = (key.as_str() == "taken").then_some(*self);
        EndlessClaim { endless, lease: terms.lease }
    }

    fn follow(&self, _: &Key, _: Duration) -> Box<dyn Follower> {
        Box::new(*self)
    }

    async fn inspect(&self, _: &Key) -> Result<Inspection, Fault> {
        Ok(Inspection::default())
    }
}

/// Nobody leads, and each look finds that somebody may.
impl Follower for Endless {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async { Ok(Following { leader: None, recheck: secs(60) }) })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl EndlessClaim {
    fn grant(&self) -> Grant {
        Grant::new(TokenBlock::new(1, 1_000), self.lease)
    }
}

impl Claim for EndlessClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        match self.endless {
            None => Ok(Attempt::Granted(self.grant())),
            Some(Endless::Changes) => Ok(Attempt::Blocked { ahead: None, recheck: secs(60) }),
            Some(Endless::Polls) => {
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await
            }
        }
    }

    async fn changed(&mut self) -> Change {
        match self.endless {
            None => std::future::pending().await,
            Some(_) => Change::Here,
        }
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        Ok(Renewal::Held(self.grant()))
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        Ok(Withdrawal::Released)
    }
}

/// Wherever the conductor is.
async fn is_bounded(store: Endless) -> Test {
    for background in [Background::Thread, Background::Runtime] {
        is_bounded_on(LockClient::builder_with(store).background(background).connect().await?)
            .await?;
    }
    Ok(())
}

async fn is_bounded_on(locks: LockClient) -> Test {
    let began = Instant::now();
    let error = locks.lock("taken").wait(ms(200)).await.unwrap_err();
    assert!(error.is_timeout() || error.is_unavailable(), "{error}");
    // Meanwhile others on this thread have had their turns, and other keys theirs.
    let waiting = tokio::spawn(locks.lock("taken").wait(secs(20)).acquire());
    locks.lock("free").wait(secs(9)).await?.release().await?;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert!(began.elapsed() < secs(20), "{:?}", began.elapsed());
    assert_eq!(locks.shutdown(ms(500)).await.abandoned, 0);
    Ok(())
}

#[tokio::test]
async fn a_store_whose_pushes_have_no_end_keeps_no_thread() -> Test {
    is_bounded(Endless::Changes).await
}

#[tokio::test]
async fn a_request_that_wakes_without_an_end_keeps_no_thread() -> Test {
    is_bounded(Endless::Polls).await
}

#[tokio::test]
async fn a_leader_that_is_told_of_without_an_end_keeps_no_thread() -> Test {
    let locks = LockClient::with_backend(Endless::Changes);
    let mut leaders = locks.election("office").observe();
    assert_eq!(leaders.next().await.transpose()?, Some(None));
    // Nothing changes, and the timer of this thread fires all the same.
    assert!(tokio::time::timeout(ms(100), leaders.next()).await.is_err());
    Ok(())
}
