//! Re-entry follows calls: what is called under a hold goes on in it, what runs beside it waits.

#![allow(clippy::disallowed_methods)] // the clock is paused

use std::cell::Cell;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::error::{BlockedBy, RunError};
use lock_core::scope::{CutWatch, LockScope};
use lock_core::{AcquireError, LockClient};
use tokio::sync::oneshot;
use tokio::time::Instant;

type Test<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Counts who is inside at once.
#[derive(Default)]
struct Room {
    inside: Cell<u32>,
    most: Cell<u32>,
    visits: Cell<u32>,
}

impl Room {
    async fn visit(&self) {
        self.inside.set(self.inside.get() + 1);
        self.most.set(self.most.get().max(self.inside.get()));
        self.visits.set(self.visits.get() + 1);
        tokio::time::sleep(ms(10)).await;
        self.inside.set(self.inside.get() - 1);
    }

    /// Takes `k`, be it again, and stays inside for a while.
    async fn enter(&self, locks: &LockClient) -> Result<u64, RunError> {
        let token = locks.lock("k").run(async |lock| {
            self.visit().await;
            lock.token().get()
        });
        token.await
    }
}

/// Nobody holds anything any more.
async fn settle(locks: &LockClient) {
    while locks.stats().keys > 0 {
        tokio::time::sleep(ms(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn branches_of_one_task_exclude_each_other() -> Test {
    let (locks, room) = (LockClient::memory(), Room::default());
    // All of it is called under another hold, so that there is a scope.
    let branches = locks.lock("other").run(async |_| {
        let later = async {
            tokio::time::sleep(ms(1)).await;
            room.enter(&locks).await
        };
        tokio::join!(room.enter(&locks), later, room.enter(&locks))
    });
    let (a, b, c) = branches.await?;
    let mut tokens = [a?, b?, c?];
    tokens.sort_unstable();
    assert!(tokens.is_sorted_by(|a, b| a < b), "a hold each: {tokens:?}");
    assert_eq!((room.most.get(), room.visits.get()), (1, 3));
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn calls_side_by_side_under_one_hold_run_one_after_the_other() -> Test {
    let (locks, room) = (LockClient::memory(), Room::default());
    let outer = locks.lock("k").await?;
    let begun = Instant::now();
    let tokens: Vec<_> = outer
        .scope(async {
            let calls: FuturesUnordered<_> = (0..5).map(|_| room.enter(&locks)).collect();
            calls.collect().await
        })
        .await;
    for token in tokens {
        assert_eq!(token?, outer.token().get(), "the hold of the caller");
    }
    assert_eq!((room.most.get(), room.visits.get()), (1, 5));
    assert_eq!(begun.elapsed(), ms(50));
    assert_eq!(locks.stats().acquired, 1);
    outer.release().await?;
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_select_drops_gives_its_turn_to_the_next() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let calls = async {
        tokio::select! {
            biased;
            _ = locks.lock("k").run(|_| pending::<()>()) => unreachable!("it stays"),
            // Waits for its sibling's turn, and is dropped in that.
            _ = locks.lock("k").acquire() => unreachable!("its sibling stays"),
            () = tokio::time::sleep(ms(10)) => {}
        }
        locks.lock("k").try_acquire().await
    };
    let inner = outer.scope(calls).await?.expect("nobody has the turn");
    assert_eq!(inner.token(), outer.token());
    drop((outer, inner));
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nested_calls_go_on_in_the_hold_that_they_are_called_under() -> Test {
    let locks = LockClient::memory();
    let depth = locks.lock("k").run(async |first| {
        let second = locks.lock("k").run(async |second| {
            let other = locks.lock("other").await?;
            let third = other.scope(locks.lock("k").acquire()).await?;
            Ok::<_, AcquireError>((second.token(), third.token()))
        });
        (first.token(), second.await)
    });
    let (first, rest) = depth.await?;
    assert_eq!(rest??, (first, first));
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_given_up_with_the_last_guard_of_its_hold() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let inner = outer.scope(locks.lock("k").acquire()).await?;
    outer.release().await?;
    assert!(inner.is_held() && locks.lock("k").try_acquire().await?.is_none());
    inner.release().await?;
    assert!(locks.lock("k").try_acquire().await?.is_some());
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_the_guard_of_its_caller_waits_like_any_other() -> Test {
    let locks = LockClient::memory();
    let (go_on, gone) = oneshot::channel::<()>();
    let outer = locks.lock("k").await?;
    let scope = outer.scope(async { LockScope::current().expect("called under a hold") }).await;
    let acquire = locks.lock("k").wait(ms(20)).acquire();
    let late = tokio::spawn(scope.run(async move {
        gone.await.expect("it is told");
        acquire.await
    }));
    let token = outer.token();
    // Its hold goes on under a guard that re-entered it: the late call is none of that one's.
    let inner = outer.scope(locks.lock("k").acquire()).await?;
    drop(outer);
    go_on.send(()).expect("it waits");
    let error = late.await?.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(inner.is_held());
    assert_eq!(inner.token(), token);
    inner.release().await?;
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_a_guard_that_re_entered_takes_turns_with_the_calls_that_are_left()
-> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let inner = outer.scope(locks.lock("k").acquire()).await?;
    let orphan = async { inner.scope(async { LockScope::current().expect("under a hold") }).await };
    let orphan = outer.scope(orphan).await;
    inner.release().await?;
    let sibling = outer.scope(locks.lock("k").acquire()).await?;
    assert!(orphan.run(locks.lock("k").try_acquire()).await?.is_none(), "two inside");
    sibling.release().await?;
    let late = orphan.run(locks.lock("k").try_acquire()).await?;
    assert_eq!(late.expect("nobody else is inside").token(), outer.token());
    drop(outer);
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_outlives_the_one_it_was_called_under_keeps_the_calls_beside_both_out() -> Test
{
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let middle = outer.scope(locks.lock("k").acquire()).await?;
    let inner = outer.scope(async { middle.scope(locks.lock("k").acquire()).await }).await?;
    middle.release().await?;
    assert!(outer.scope(locks.lock("k").try_acquire()).await?.is_none(), "two inside");
    inner.release().await?;
    assert!(outer.scope(locks.lock("k").try_acquire()).await?.is_some());
    drop(outer);
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_sibling_joins_the_line_when_their_hold_is_lost() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").hold_limit(ms(50)).await?;
    let stays = outer.scope(locks.lock("k").acquire()).await?;
    let begun = Instant::now();
    let next = outer.scope(locks.lock("k").wait(ms(2_000)).acquire()).await?;
    assert!(begun.elapsed() <= ms(51), "{:?}", begun.elapsed());
    assert!(next.token() > stays.token());
    drop((outer, stays, next));
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_callers_guard_goes_while_it_waits_joins_the_line() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let mut waiting = pin!(outer.scope(locks.lock("k").acquire()));
    let inner = outer.scope(locks.lock("k").acquire()).await?;
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    drop(outer);
    assert!(futures_util::poll!(waiting.as_mut()).is_pending(), "its sibling holds the lock");
    let old = inner.token();
    inner.release().await?;
    assert!(waiting.await?.token() > old, "a hold of its own");
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_sibling_ends_at_the_budget_and_names_the_hold() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let stays = outer.scope(locks.lock("k").acquire()).await?;
    let begun = Instant::now();
    let error = outer.scope(locks.lock("k").wait(ms(100)).retries(1).acquire()).await.unwrap_err();
    assert_eq!(begun.elapsed(), ms(200));
    let AcquireError::Timeout(timeout) = &error else { panic!("{error}") };
    assert_eq!(timeout.blocked_by(), &BlockedBy::ThisClient { token: outer.token() });
    assert!(outer.scope(locks.lock("k").try_acquire()).await?.is_none());
    let alone = outer.scope(locks.lock("k").wait(ms(50)).reentrant(false).acquire()).await;
    assert!(alone.unwrap_err().is_timeout(), "who does not re-enter waits for its own caller");
    drop((outer, stays));
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_lost_is_re_entered_by_nobody_and_told_to_all_its_guards() -> Test {
    let locks = LockClient::memory();
    let outer = locks.lock("k").hold_limit(ms(50)).await?;
    let inner = outer.scope(locks.lock("k").acquire()).await?;
    // Waits for its turn when the hold is lost, and is granted one of its own.
    let waits = outer.scope(locks.lock("k").acquire());
    let both = async {
        let lost = inner.lost().await;
        assert_eq!(lost.token(), inner.token());
        assert!(outer.handle().why_lost().is_some());
        assert!(inner.release().await.unwrap_err().is_not_held());
    };
    let (fresh, ()) = tokio::join!(waits, both);
    let fresh = fresh?;
    assert!(fresh.token() > outer.token());
    assert!(outer.release().await.unwrap_err().is_not_held());
    assert!(fresh.is_held());
    drop(fresh);
    settle(&locks).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_client_is_another_lock() -> Test {
    let (a, b) = (LockClient::memory(), LockClient::memory());
    let outer = a.lock("k").await?;
    let other = outer.scope(b.lock("k").acquire()).await?;
    assert_eq!((a.stats().held, b.stats().held), (1, 1));
    drop((outer, other));
    settle(&a).await;
    settle(&b).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_a_cut_and_no_end_of_another_kind() -> Test {
    let locks = LockClient::memory();
    let quiet = CutWatch::new();
    let done = quiet.scope(locks.lock("k").hold_limit(ms(50)).run(async |_| 1)).await?;
    let dropped = quiet.scope(locks.lock("k").run(|_| pending::<()>()));
    tokio::time::timeout(ms(10), dropped).await.unwrap_err();
    assert!(done == 1 && !quiet.has_seen_one());

    let (outer, inner) = (CutWatch::new(), CutWatch::new());
    let work = locks.lock("k").hold_limit(ms(50)).run(|_| pending::<()>());
    assert!(outer.scope(async { inner.scope(work).await }).await.is_err());
    assert!(outer.has_seen_one() && inner.has_seen_one() && !quiet.has_seen_one());
    settle(&locks).await;
    Ok(())
}
