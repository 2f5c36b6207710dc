//! Many waiters, many keys.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use lock_core::LockClient;
use lock_core::memory::Memory;
use tokio::task::JoinSet;

use crate::{Test, secs};

/// Counts how often a future is polled.
struct Counted<F>(F, Arc<AtomicU32>);

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_are_served_in_order_with_one_wake_each() -> Test {
    const WAITERS: u32 = 10_000;
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let (served, polls) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for number in 0..WAITERS {
        let (locks, served) = (locks.clone(), served.clone());
        let acquire = Counted(locks.lock("k").wait(secs(60)).into_future(), polls.clone());
        tasks.spawn(async move {
            let guard = acquire.await.expect("its turn");
            assert_eq!(served.fetch_add(1, Ordering::Relaxed), number);
            drop(guard);
        });
    }
    while locks.stats().waiters < WAITERS as usize {
        tokio::task::yield_now().await;
    }
    assert!(locks.lock("k").await.unwrap_err().is_overloaded());
    held.release().await?;
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    assert_eq!(polls.load(Ordering::Relaxed), 2 * WAITERS, "the first poll, and one when woken");
    assert!(locks.shutdown(secs(1)).await.complete);
    assert_eq!(locks.stats().handoffs_local, u64::from(WAITERS));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_that_give_up_leave_nothing() -> Test {
    let store = Memory::new();
    let (locks, rival) =
        (LockClient::with_backend(store.clone()), LockClient::with_backend(store.clone()));
    let held = rival.lock("k").await?;
    let mut tasks = JoinSet::new();
    for number in 0..10_000_u64 {
        // Half end by themselves, half are cancelled.
        let wait = if number % 2 == 0 { secs(1) } else { secs(60) };
        let acquire = locks.lock("k").wait(wait).acquire();
        tasks.spawn(async move {
            let ended = tokio::time::timeout(secs(2), acquire).await;
            assert!(ended.is_err() || ended.is_ok_and(|ended| ended.unwrap_err().is_timeout()));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    assert!(locks.shutdown(secs(1)).await.complete);
    assert_eq!((locks.stats().timeouts, locks.stats().waiters), (5_000, 0));
    assert!(rival.inspect("k").await?.waiters.is_empty());
    held.release().await?;
    assert_eq!(store.keys(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_keys_once_each_leave_the_maps_empty() -> Test {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    for batch in 0..100 {
        let mut guards = Vec::new();
        for number in 0..1_000 {
            guards.push(locks.lock(format!("order:{batch}:{number}")).await?);
        }
        assert_eq!((locks.stats().keys, store.keys()), (1_000, 1_000));
        drop(guards);
        while locks.stats().keys > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.keys(), 0);
    }
    assert_eq!(locks.stats().acquired, 100_000);
    assert!(locks.shutdown(secs(1)).await.complete);
    Ok(())
}
