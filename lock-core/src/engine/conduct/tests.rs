//! Wakers of the application that panic.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::LockClient;
use crate::error::LossReason;
use crate::memory::Memory;
use crate::options::Background;
use crate::scope::LockScope;

type Test = Result<(), Box<dyn std::error::Error>>;

#[derive(Default)]
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a waker of the application");
    }
}

/// Waits until it was woken so often. A test that waits for longer is broken.
async fn woken(panics: &Panics, times: usize) {
    let is_woken = async {
        while panics.0.load(Ordering::SeqCst) < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_woken).await.expect("it is woken");
}

async fn client() -> LockClient {
    let builder = LockClient::builder_with(Memory::new()).background(Background::Thread);
    builder.connect().await.expect("a store in this process")
}

/// The conductor ends both waits. It would have gone with the first one.
#[tokio::test]
async fn a_waker_that_panics_takes_no_other_key_with_it() -> Test {
    let locks = client().await;
    let (held, other) = (locks.lock("a").await?, locks.lock("b").await?);
    let panics = Arc::new(Panics::default());
    let waker = Waker::from(panics.clone());
    let wait = Duration::from_millis(100);
    let mut waits = pin!(locks.lock("a").wait(wait).acquire());
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    woken(&panics, 1).await;
    assert!(waits.await.unwrap_err().is_timeout(), "it is told all the same");
    assert!(locks.lock("b").wait(wait).await.unwrap_err().is_timeout());
    assert!(held.is_held() && other.is_held());
    held.release().await?;
    other.release().await?;
    let is_left = async {
        while locks.stats().keys > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_left).await?;
    Ok(())
}

/// The others of several who wait or watch are told.
#[tokio::test]
async fn a_waker_that_panics_keeps_nothing_from_those_behind_it() -> Test {
    let locks = client().await;
    let reader = locks.lock("k").shared().hold_limit(Duration::from_millis(300)).await?;
    let panics = Arc::new(Panics::default());
    let waker = Waker::from(panics.clone());
    let mut first = pin!(reader.lost());
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let behind = tokio::spawn(reader.lost());
    let told = tokio::time::timeout(Duration::from_secs(20), behind);
    assert_eq!(told.await.expect("it is woken")?.reason, LossReason::HoldLimit);
    woken(&panics, 1).await;
    let next = locks.lock("k").wait(Duration::from_secs(20)).await?;
    next.release().await?;
    Ok(())
}

/// It is of a call that waits for its turn under the guard.
#[tokio::test]
async fn a_waker_that_panics_keeps_no_key_from_being_given_back() -> Test {
    let locks = client().await;
    for releases in [true, false] {
        let outer = locks.lock("k").await?;
        let scope = outer.scope(async { LockScope::current() }).await.expect("a scope");
        let inner = scope.run(locks.lock("k").acquire()).await?;
        let panics = Arc::new(Panics::default());
        let waker = Waker::from(panics.clone());
        let mut behind = Box::pin(scope.run(locks.lock("k").acquire()));
        assert!(behind.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        if releases {
            outer.release().await?;
        } else {
            drop(outer);
        }
        woken(&panics, 1).await;
        drop(behind);
        inner.release().await?;
        assert_eq!(locks.stats().held, 0);
        let next = locks.lock("k").wait(Duration::from_secs(20)).await?;
        next.release().await?;
    }
    Ok(())
}
