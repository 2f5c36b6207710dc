//! The public face over the memory backend.

#![allow(clippy::disallowed_methods)] // the clock is paused

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::error::{LossReason, Rejection, RunError};
use lock_core::options::Fairness;
use lock_core::scope::LockScope;
use lock_core::{AcquireError, LockClient};

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn settle(locks: &LockClient) {
    while locks.stats().keys > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_exclude_each_other_in_their_order_of_arrival() -> Test {
    let locks = LockClient::memory();
    let inside = Arc::new(AtomicU32::new(0));
    let (order, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for task in 0..50_u32 {
        let (locks, inside, order) = (locks.clone(), inside.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let guard = locks.lock("hot").await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            order.send((task, guard.token())).unwrap();
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await?;
    }
    drop(order);
    let mut last = None;
    for task in 0..50 {
        let (seen, token) = seen.recv().await.unwrap();
        assert_eq!(seen, task);
        assert!(last.is_none_or(|last| last < token));
        last = Some(token);
    }
    settle(&locks).await;
    assert_eq!(locks.stats().acquired, 50);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_named_store_exclude_each_other() -> Test {
    let a = LockClient::connect("memory:face-exclude").await?;
    let b = LockClient::connect("memory:face-exclude").await?;
    let held = a.lock("k").await?;
    assert!(b.lock("k").try_acquire().await?.is_none());
    let waiting = tokio::spawn(b.lock("k").acquire());
    tokio::time::sleep(ms(1)).await;
    assert_eq!(a.inspect("k").await?.waiters.len(), 1);
    let token = held.token();
    held.release().await?;
    let next = waiting.await??;
    assert!(next.token() > token);
    assert_eq!(b.stats().handoffs_remote, 1);
    drop(next);
    settle(&b).await;
    settle(&a).await;
    assert_eq!(a.inspect("k").await?, Default::default());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_budget_and_says_who_held() -> Test {
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let begun = tokio::time::Instant::now();
    let error = locks.lock("k").wait(ms(100)).retries(2).await.unwrap_err();
    let took = begun.elapsed();
    assert!(took >= ms(300) && took <= ms(310), "{took:?}");
    assert!(error.is_timeout() && error.is_retryable());
    assert!(error.to_string().contains(&held.token().to_string()), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_as_long_as_the_guard_lives() -> Test {
    let locks = LockClient::memory();
    let guard = locks.lock("k").lease(ms(300)).await?;
    tokio::time::sleep(ms(5_000)).await;
    assert!(guard.is_held());
    assert!(locks.stats().renewals >= 40);
    guard.release().await?;
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_limit_tells_the_holder_first_and_hands_the_lock_on() -> Test {
    let locks = LockClient::memory();
    let guard = locks.lock("k").hold_limit(ms(50)).await?;
    let next = tokio::spawn(locks.lock("k").acquire());
    let lost = guard.lost().await;
    assert_eq!((lost.reason(), lost.token()), (LossReason::HoldLimit, guard.token()));
    let next = next.await??;
    assert!(next.token() > guard.token() && next.is_held() && !guard.is_held());
    assert!(guard.release().await.unwrap_err().is_not_held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lost_lock_is_stopped() -> Test {
    let locks = LockClient::memory();
    let endless = |_| std::future::pending::<()>();
    let error = locks.lock("k").hold_limit(ms(50)).run(endless).await.unwrap_err();
    assert!(matches!(error, RunError::Lost(lost) if lost.reason() == LossReason::HoldLimit));
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_idle_lease_lingers_and_is_given_back_when_wanted() -> Test {
    let a = LockClient::connect("memory:face-linger").await?;
    let b = LockClient::connect("memory:face-linger").await?;
    drop(a.lock("k").linger(ms(1_000)).await?);
    drop(a.lock("k").linger(ms(1_000)).await?);
    assert_eq!(a.stats().handoffs_local, 1);
    assert_eq!(a.stats().keys, 1);
    let begun = tokio::time::Instant::now();
    drop(b.lock("k").await?);
    assert!(begun.elapsed() < ms(5), "{:?}", begun.elapsed());
    settle(&a).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_spawned_under_a_hold_is_outside_unless_it_is_given_the_scope() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let tasks = outer.scope(async {
        let outside = locks.clone();
        let outside = tokio::spawn(async move { outside.lock("k").try_acquire().await });
        let scope = LockScope::current().expect("called under a hold");
        (outside, tokio::spawn(scope.run(locks.lock("k").acquire())))
    });
    let (outside, inside) = tasks.await;
    assert!(outside.await??.is_none());
    assert_eq!(inside.await??.token(), outer.token());
    assert!(LockScope::current().is_none());
    outer.release().await?;
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn under_strict_fairness_the_process_that_waits_longest_is_next() -> Test {
    let a = LockClient::connect("memory:strict").await?;
    let b = LockClient::connect("memory:strict").await?;
    let strict = |locks: &LockClient| locks.lock("k").fairness(Fairness::Strict).acquire();
    let held = strict(&a).await?;
    let of_b = tokio::spawn(strict(&b));
    tokio::time::sleep(ms(1)).await;
    let of_a = tokio::spawn(strict(&a));
    tokio::time::sleep(ms(1)).await;
    held.release().await?;
    let first = of_b.await??;
    assert!(!of_a.is_finished());
    first.release().await?;
    of_a.await??.release().await?;
    settle(&a).await;
    settle(&b).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_may_wait_for_a_key_unless_told_otherwise_and_one_at_least() -> Test {
    for (locks, most) in [
        (LockClient::memory(), 10_000),
        (LockClient::builder("memory:").waiters_per_key_max(0).connect().await?, 1),
    ] {
        let held = locks.lock("k").await?;
        let waiting: Vec<_> = (0..most).map(|_| tokio::spawn(locks.lock("k").acquire())).collect();
        while locks.stats().waiters < most {
            tokio::task::yield_now().await;
        }
        assert!(locks.lock("k").await.unwrap_err().is_overloaded());
        waiting.iter().for_each(|task| task.abort());
        drop(held);
        settle(&locks).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_full_line_refuses_at_once() -> Test {
    let locks = LockClient::builder("memory:").waiters_per_key_max(2).connect().await?;
    let held = locks.lock("k").await?;
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(locks.lock("k").acquire())).collect();
    tokio::time::sleep(ms(1)).await;
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.is_overloaded(), "{error}");
    drop(held);
    for waiter in waiting {
        waiter.await??.release().await?;
    }
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_before_anything_is_sent() -> Test {
    let locks = LockClient::memory();
    let refused = |error: AcquireError| {
        assert!(error.is_rejected() && !error.is_retryable(), "{error}");
    };
    refused(locks.lock("").await.unwrap_err());
    refused(locks.lock("k".repeat(513)).await.unwrap_err());
    refused(locks.lock("k").lease(Duration::ZERO).await.unwrap_err());
    refused(locks.lock("k").wait(Duration::MAX).await.unwrap_err());
    refused(Rejection::NoClient.into());
    for url in ["", "nonsense", "ftp://user:secret@host", "memory:/x", "secret"] {
        let error = LockClient::connect(url).await.unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
    assert_eq!(locks.stats().keys, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_waits_and_waits_for_guards() -> Test {
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let waiting = tokio::spawn(locks.lock("k").acquire());
    tokio::time::sleep(ms(1)).await;
    let ending = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown(ms(1_000)).await }
    });
    assert!(waiting.await?.unwrap_err().is_closed());
    assert!(locks.lock("other").await.unwrap_err().is_closed());
    assert!(held.is_held());
    held.release().await?;
    let report = ending.await?;
    assert!(report.complete && report.abandoned == 0, "{report:?}");
    assert_eq!(locks.stats().keys, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_tells_those_who_do_not_let_go() -> Test {
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let report = locks.shutdown(ms(100)).await;
    assert!(report.complete && report.abandoned == 1, "{report:?}");
    assert_eq!(held.lost().await.reason(), LossReason::Shutdown);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_nothing_behind() -> Test {
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let mut waiting = Box::pin(locks.lock("k").acquire());
    assert!(futures_poll(&mut waiting).await.is_none());
    drop(waiting);
    assert_eq!(locks.stats().waiters, 0);
    drop(held);
    settle(&locks).await;
    Ok(())
}

async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn a_guard_may_be_dropped_outside_a_runtime_and_after_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let locks = LockClient::memory();
    let (a, b) = runtime
        .block_on(async { (locks.lock("a").await.unwrap(), locks.lock("b").await.unwrap()) });
    drop(a);
    drop(runtime);
    assert!(b.is_held());
    drop(b);
    assert_eq!(locks.stats().keys, 0);
}

/// A handler that is traced with its arguments prints a client at each call.
#[tokio::test(start_paused = true)]
async fn a_client_is_printed_in_a_few_words_however_many_keys_are_held() -> Test {
    struct Page(String);
    impl fmt::Write for Page {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() < 1 << 16 { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let locks = LockClient::memory();
    let mut guards = Vec::new();
    for n in 0..64 {
        guards.push(locks.lock(format!("secret-{n}")).await?);
    }
    let lost = guards[0].lost();
    let election = locks.election("e");
    let printed: [&dyn fmt::Debug; 4] = [&locks, &guards[1], &lost, &election];
    for printed in printed {
        let mut page = Page(String::new());
        write!(page, "{printed:?}")?;
        assert!(!page.0.contains("secret-7"), "{}", page.0);
    }
    Ok(())
}
