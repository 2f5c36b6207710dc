//! How long a line an acquire joins.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;

use futures_util::poll;
use lock_core::error::OverloadedError;
use lock_core::futures::Acquire;
use lock_core::{AcquireError, LockClient};
use tokio::task::{JoinSet, yield_now};
use tokio::time::Instant;

use crate::{Test, ms, secs};

/// The acquire where it joined the line, else who refused it.
async fn join(locks: &LockClient, most: usize) -> Result<Acquire, OverloadedError> {
    let mut acquire = locks.lock("k").wait(secs(60)).waiters_max(most).acquire();
    let begun = Instant::now();
    match poll!(&mut acquire) {
        Poll::Pending => Ok(acquire),
        Poll::Ready(Err(AcquireError::Overloaded(error))) => {
            assert_eq!(begun.elapsed(), ms(0), "at once");
            Err(error)
        }
        Poll::Ready(other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_says_how_long_a_line_it_joins_and_the_client_how_long_one_may_be() -> Test {
    let locks = LockClient::builder("memory:").waiters_per_key_max(3).connect().await?;
    let held = locks.lock("k").await?;
    let first = join(&locks, 0).await?;
    for most in [0, 1] {
        let error = join(&locks, most).await.unwrap_err();
        assert!(error.is_waiters_max() && error.waiters() == 1, "{error}");
    }
    let _others = [join(&locks, 2).await?, join(&locks, usize::MAX).await?];
    for (most, own) in [(2, true), (3, true), (4, false), (usize::MAX, false)] {
        let error = join(&locks, most).await.unwrap_err();
        assert_eq!((error.is_waiters_max(), error.waiters()), (own, 3), "{most}: {error}");
    }
    drop(first);
    let _fourth = join(&locks, 3).await?;
    assert_eq!(locks.stats().waiters, 3);
    drop(held);
    assert_eq!(locks.stats().waiters, 2, "who holds does not wait");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_further_try_joins_the_line_as_it_is_then() -> Test {
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let short = locks.lock("k").wait(ms(10)).retries(1).waiters_max(1).acquire();
    let short = tokio::spawn(short);
    // It pauses for 5 to 10 ms, of the 20 that it has.
    tokio::time::sleep(ms(11)).await;
    let long = join(&locks, 1).await?;
    let error = short.await?.unwrap_err();
    assert!(error.is_overloaded(), "{error}");
    drop((held, long));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_more_are_in_line_than_they_say_who_come_and_go_at_once() -> Test {
    const MOST: usize = 3;
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let inside = Arc::new(AtomicUsize::new(0));
    let (joined, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let (locks, inside) = (locks.clone(), inside.clone());
        let (joined, refused) = (joined.clone(), refused.clone());
        tasks.spawn(async move {
            for _ in 0..500 {
                let mut acquire = locks.lock("k").wait(secs(60)).waiters_max(MOST).acquire();
                match poll!(&mut acquire) {
                    // Tokio wants the task to let others run before it asks.
                    Poll::Pending if acquire.tries() == 0 => yield_now().await,
                    // Counted for less long than it is in line.
                    Poll::Pending => {
                        assert!(inside.fetch_add(1, SeqCst) < MOST);
                        joined.fetch_add(1, SeqCst);
                        yield_now().await;
                        inside.fetch_sub(1, SeqCst);
                    }
                    Poll::Ready(Err(error)) => {
                        assert!(error.is_overloaded(), "{error}");
                        refused.fetch_add(1, SeqCst);
                    }
                    Poll::Ready(Ok(_)) => panic!("granted while it is held"),
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    assert!(joined.load(SeqCst) > 0 && refused.load(SeqCst) > 0, "{joined:?} {refused:?}");
    assert_eq!(locks.stats().waiters, 0, "all places are free again");
    let mut line = Vec::new();
    for _ in 0..MOST {
        let mut acquire = locks.lock("k").waiters_max(MOST).acquire();
        assert!(poll!(&mut acquire).is_pending());
        line.push(acquire);
    }
    drop((held, line));
    assert_eq!(locks.stats().waiters, 0);
    Ok(())
}

/// A worker keeps the task that was woken last until the one that woke it yields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_run_while_the_task_of_a_writer_that_gave_up_computes() -> Test {
    let locks = LockClient::memory();
    let (runs, ran) = mpsc::channel();
    let task = async move {
        let reader = locks.lock("k").shared().await?;
        let mut writer = locks.lock("k").acquire();
        assert!(poll!(&mut writer).is_pending());
        for _ in 0..3 {
            let (locks, runs) = (locks.clone(), runs.clone());
            tokio::spawn(async move {
                let guard = locks.lock("k").shared().await.expect("its turn");
                runs.send(()).expect("it is waited for");
                guard.release().await.expect("it is held");
            });
        }
        while locks.stats().waiters < 4 {
            yield_now().await;
        }
        drop(writer);
        // This task does not yield: whoever runs does so on the other worker.
        for _ in 0..3 {
            ran.recv_timeout(secs(10))?;
        }
        reader.release().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    tokio::spawn(task).await??;
    Ok(())
}

/// A task may wait in several futures at once, and is to be woken for each of them but the one that
/// it is about to look at.
#[tokio::test(start_paused = true)]
async fn a_task_that_releases_and_waits_at_once_is_woken_for_what_it_waits_for() -> Test {
    let locks = LockClient::memory();
    let writer = locks.lock("k").await?;
    let both = async { tokio::join!(locks.lock("k").shared().acquire(), writer.release()) };
    let (reader, released) = tokio::time::timeout(secs(60), both).await?;
    released?;
    // The other way round: one who has waited longest, and whose driver another one polls.
    let reader = reader?;
    let both = async { tokio::join!(locks.lock("k").acquire(), reader.release()) };
    let (writer, released) = tokio::time::timeout(secs(60), both).await?;
    released?;
    writer?.release().await?;
    Ok(())
}
