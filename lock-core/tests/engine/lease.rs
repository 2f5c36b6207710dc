//! Renewals, and what the clock decides without them.

use lock_core::backend::{Backend, Claim, FaultKind, Terms};
use lock_core::error::LossReason;
use lock_core::test_util::{Act, Verb};
use lock_core::{Key, LockClient};
use tokio::time::{Instant, sleep, timeout};

use crate::{Stage, Test, assert_after, ms, secs, settle};

/// Nine seconds less 1 % and 2 ms.
const VALID_MS: u64 = 9_000 - 92;

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_hold_up_the_news_of_the_loss() -> Test {
    for act in [Act::Never, Act::Stuck] {
        let stage = Stage::new();
        stage.script.always(Verb::Renew, act);
        let guard = stage.locks.lock("k").lease(secs(9)).await?;
        let lost = guard.lost().await;
        assert_after(stage.script.calls()[0].at, Instant::now(), ms(VALID_MS));
        assert_eq!(lost.reason(), LossReason::Expired);
        assert!(!guard.is_held() && guard.lease_left().is_zero());
        assert_eq!(stage.locks.stats().lost, 1);
        stage.script.heal();
        assert!(guard.release().await.unwrap_err().is_not_held());
        stage.rival.lock("k").await?.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_late_held_does_not_revive_a_hold_and_gives_the_key_back() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, Act::Never);
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    guard.lost().await;
    // The store took the renewal at a third of the lease, and holds the key for this claim still.
    assert!(stage.rival.lock("k").try_acquire().await?.is_none());
    stage.script.open(Verb::Renew);
    settle().await;
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await.reason(), LossReason::Expired);
    // Without waiting for the end of the lease that the store has in mind.
    stage.rival.lock("k").try_acquire().await?.expect("a free key").release().await?;
    assert!(guard.release().await.unwrap_err().is_not_held());
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_tried_again_after_a_ninth_and_goes_on_after_it_was_served() -> Test {
    for act in [Act::Err(FaultKind::Transient), Act::Lost] {
        let stage = Stage::new();
        stage.script.next(Verb::Renew, act);
        stage.script.next(Verb::Renew, act);
        let guard = stage.locks.lock("k").lease(secs(9)).await?;
        sleep(secs(600)).await;
        assert!(guard.is_held());
        let start = stage.script.calls()[0].at;
        let renewals = stage.script.calls_of(Verb::Renew);
        let expected = [3_000, 4_000, 5_000, 8_000, 11_000, 14_000];
        for (call, at) in renewals.iter().zip(expected) {
            // Timers round up, and each renewal counts from the one before.
            let late = call.at.duration_since(start).saturating_sub(ms(at));
            assert!(call.at >= start + ms(at) && late < ms(10), "{renewals:?}");
        }
        assert!(renewals.len() > 190, "{} renewals in ten minutes", renewals.len());
        guard.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn renewals_that_all_fail_end_the_hold_at_its_lease_and_never_extend_it() -> Test {
    for act in [Act::Err(FaultKind::Transient), Act::Lost] {
        let stage = Stage::new();
        stage.script.always(Verb::Renew, act);
        let guard = stage.locks.lock("k").lease(secs(9)).await?;
        assert_eq!(guard.lost().await.reason(), LossReason::Expired);
        assert_after(stage.script.calls()[0].at, Instant::now(), ms(VALID_MS));
        assert_eq!(stage.script.calls_of(Verb::Renew).len(), 6);
        drop(guard);
        stage.rival.lock("k").await?.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_when_its_renewal_was_sent() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, Act::Slow(secs(2)));
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    stage.script.called(Verb::Renew, 1).await;
    let sent = stage.script.calls_of(Verb::Renew)[0].at;
    let before = guard.lease_left();
    sleep(ms(2_001)).await;
    assert!(guard.lease_left() > before - ms(2_001), "the answer extended the lease");
    let left = guard.lease_left();
    assert_eq!(Instant::now().into_std() + left, sent + ms(VALID_MS));
    guard.release().await?;
    stage.is_clean(secs(3)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn renewals_of_one_hold_are_never_under_way_twice() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, Act::Never);
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    sleep(secs(8)).await;
    assert_eq!(stage.script.calls_of(Verb::Renew).len(), 1);
    stage.script.heal();
    settle().await;
    guard.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_renewal_outlives_the_release() -> Test {
    for linger in [ms(0), secs(5)] {
        for by_drop in [false, true] {
            let stage = Stage::new();
            let guard = stage.locks.lock("k").lease(secs(9)).linger(linger).await?;
            sleep(secs(4)).await;
            if by_drop {
                drop(guard)
            } else {
                guard.release().await?
            }
            sleep(linger).await;
            settle().await;
            let renewals = stage.script.calls_of(Verb::Renew).len();
            sleep(secs(60)).await;
            assert_eq!(stage.script.calls_of(Verb::Renew).len(), renewals);
            assert_eq!(stage.script.calls_of(Verb::Withdraw).len(), 1);
            stage.is_clean(secs(1)).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_store_forgot_is_lost_at_its_next_renewal() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    let first = stage.script.calls()[0];
    let terms = Terms::exclusive(secs(9));
    stage.store.claim(&Key::new("k")?, first.claim, terms).withdraw().await?;
    let rival = stage.rival.lock("k").await?;
    let lost = guard.lost().await;
    assert_after(first.at, Instant::now(), secs(3));
    assert_eq!((lost.reason(), lost.token()), (LossReason::Taken, guard.token()));
    assert!(rival.token() > guard.token());
    drop(guard);
    settle().await;
    assert!(rival.is_held(), "the stale holder's release took the key from the next");
    rival.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_limit_ends_the_guard_and_hands_the_lock_on_with_a_higher_token() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").lease(secs(9)).hold_limit(secs(20)).await?;
    let begun = Instant::now();
    let next = tokio::spawn(stage.locks.lock("k").wait(secs(60)).acquire());
    assert_eq!(guard.lost().await.reason(), LossReason::HoldLimit);
    assert_after(begun, Instant::now(), secs(20));
    let next = next.await??;
    assert_after(begun, Instant::now(), secs(20));
    assert!(next.token() > guard.token() && next.is_held() && !guard.is_held());
    assert!(guard.release().await.unwrap_err().is_not_held());
    assert!(next.is_held());
    next.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_work_under_run_is_dropped_when_the_lock_is_lost() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, Act::Never);
    let begun = Instant::now();
    let work = |_| std::future::pending::<()>();
    let error = stage.locks.lock("k").lease(secs(9)).run(work).await.unwrap_err();
    assert!(
        matches!(&error, lock_core::error::RunError::Lost(lost) if lost.reason() == LossReason::Expired)
    );
    assert_after(begun, Instant::now(), ms(VALID_MS));
    stage.script.heal();
    stage.rival.lock("k").await?.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_lingers_is_given_back_with_the_last_handle_of_the_client() -> Test {
    let stage = Stage::new();
    let lingering = |locks: &LockClient, key| locks.lock(key).lease(secs(60)).linger(secs(60));
    lingering(&stage.locks, "idle").await?.release().await?;
    let permit = || lingering(&stage.locks, "permits").permits(2).acquire();
    for permit in [permit().await?, permit().await?] {
        permit.release().await?;
    }
    let held = lingering(&stage.locks, "held").await?;
    let asked = lingering(&stage.locks, "asked").acquire();
    let Stage { locks, rival, store, .. } = stage;
    let is_free = async |key| rival.lock(key).try_acquire().await.map(|guard| guard.is_some());
    drop(locks.clone());
    settle().await;
    assert!(!is_free("idle").await?, "there is a handle still");

    drop(locks);
    settle().await;
    assert!(is_free("idle").await?, "nobody would come for it");
    assert!(is_free("permits").await?, "nor for either of them");
    // The holder goes on, and so does the one that has asked; for neither of them it lingers.
    assert!(held.is_held() && !is_free("held").await?);
    held.release().await?;
    assert!(is_free("held").await?);
    asked.await?.release().await?;
    assert!(is_free("asked").await?);
    settle().await;
    assert_eq!(store.keys(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_lingers_is_given_back_when_it_is_tried_elsewhere() -> Test {
    let stage = Stage::new();
    let lingering = |key| stage.locks.lock(key).lease(secs(60)).linger(secs(60));
    let is_free = async |key| {
        let tried = stage.rival.lock(key).try_acquire().await?;
        // Longer than the conductor leaves a key alone.
        sleep(ms(100)).await;
        Ok::<_, lock_core::AcquireError>(tried.is_some())
    };
    lingering("idle").await?.release().await?;
    assert_eq!((is_free("idle").await?, is_free("idle").await?), (false, true));

    // One that is held stays, and does not linger when it is released. The next one does.
    let held = lingering("held").await?;
    for _ in 0..3 {
        assert!(!is_free("held").await?);
    }
    assert!(held.is_held());
    held.release().await?;
    assert!(is_free("held").await?);
    lingering("held").await?.release().await?;
    assert!(!is_free("held").await?);
    Ok(())
}

/// It is taken without a word to the store, which tells nobody when the limit is over.
#[tokio::test(start_paused = true)]
async fn the_hold_limit_of_one_that_was_taken_while_it_lingered_is_kept() -> Test {
    let stage = Stage::new();
    let lock = || stage.locks.lock("k").lease(secs(60)).linger(secs(60));
    // The first has a token, and the second more of them.
    for _ in 0..2 {
        lock().await?.release().await?;
        sleep(ms(100)).await;
    }
    let guard = lock().hold_limit(secs(1)).await?;
    let next = timeout(secs(2), stage.rival.lock("k").acquire()).await??;
    assert!(!guard.is_held());
    next.release().await?;
    Ok(())
}
