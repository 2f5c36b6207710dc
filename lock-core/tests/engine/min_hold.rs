//! A key that stays taken for a while, however soon its holder lets go.

use lock_core::LockOptions;
use lock_core::error::Rejection;
use lock_core::test_util::Verb;
use tokio::time::{Instant, sleep};

use crate::{Stage, Test, assert_after, ms, secs, settle};

/// What ShedLock's `lockAtLeastFor` is for: three replicas, whose clocks are 30 ms apart, have a job
/// of 5 ms.
#[tokio::test(start_paused = true)]
async fn a_short_job_of_several_replicas_runs_once_per_interval() -> Test {
    for min_hold in [ms(0), secs(50)] {
        let stage = Stage::new();
        let mut runs = 0;
        for tick in 0..3 {
            for (replica, locks) in [&stage.locks, &stage.rival, &stage.locks].iter().enumerate() {
                if let Some(guard) = locks.lock("job").min_hold(min_hold).try_acquire().await? {
                    runs += 1;
                    sleep(ms(5)).await;
                    guard.release().await?;
                }
                sleep(ms(30)).await;
                assert!(replica < 3 && tick < 3);
            }
            sleep(secs(60)).await;
        }
        assert_eq!(runs, if min_hold.is_zero() { 9 } else { 3 });
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_rests_for_all_and_goes_to_the_first_in_line_when_that_is_over() -> Test {
    for is_here in [true, false] {
        for by_drop in [true, false] {
            let stage = Stage::new();
            let guard = stage.locks.lock("k").min_hold(secs(5)).await?;
            let (begun, token) = (Instant::now(), guard.token());
            sleep(secs(1)).await;
            if by_drop {
                drop(guard)
            } else {
                guard.release().await?
            }
            settle().await;
            assert_eq!(stage.locks.busy_keys()[0].guards.len(), 0, "nobody holds it");
            assert!(stage.locks.lock("k").try_acquire().await?.is_none());
            assert!(stage.rival.lock("k").try_acquire().await?.is_none());
            let client = if is_here { &stage.locks } else { &stage.rival };
            let next = client.lock("k").await?;
            assert_after(begun, Instant::now(), secs(5));
            assert!(next.token() > token);
            next.release().await?;
            stage.is_clean(secs(1)).await;
        }
    }
    Ok(())
}

/// Nor does it change a hold that lasts for longer.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_held_for_as_long_does_not_rest() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").min_hold(secs(5)).await?;
    sleep(secs(6)).await;
    guard.release().await?;
    stage.rival.lock("k").try_acquire().await?.expect("free at once").release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// It is not renewed for nobody. The lease is longer by a sixty-fourth and 2.1 s, so the key stays
/// taken until then.
#[tokio::test(start_paused = true)]
async fn what_rests_is_not_renewed_and_outlives_its_process() -> Test {
    for rested in [ms(0), secs(49)] {
        let stage = Stage::new();
        let guard = stage.locks.lock("k").lease(secs(3)).min_hold(secs(50)).await?;
        let begun = Instant::now();
        guard.release().await?;
        sleep(rested).await;
        let Stage { locks, rival, script, store } = stage;
        // Its process is gone.
        drop(locks);
        settle().await;
        let next = rival.lock("k").wait(secs(60)).await?;
        assert_after(begun, Instant::now(), ms(50_000 + 781 + 2_100));
        assert_eq!(script.calls_of(Verb::Renew).len(), 0);
        assert_eq!(script.calls_of(Verb::Withdraw).len(), 0);
        next.release().await?;
        settle().await;
        assert_eq!(store.keys(), 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_rest() -> Test {
    let stage = Stage::new();
    let begun = Instant::now();
    stage.locks.lock("k").lease(secs(3)).min_hold(secs(50)).await?.release().await?;
    let report = stage.locks.shutdown(secs(60)).await;
    assert!(report.complete && report.abandoned == 0, "{report:?}");
    assert!(begun.elapsed() < secs(1));
    stage.rival.lock("k").wait(secs(60)).await?.release().await?;
    assert_after(begun, Instant::now(), ms(50_000 + 781 + 2_100));
    Ok(())
}

/// Who waits for a key that rests goes on, though the last handle of the client is gone.
#[tokio::test(start_paused = true)]
async fn who_waits_has_a_key_that_rested_when_its_client_is_gone() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").min_hold(secs(5)).await?;
    let begun = Instant::now();
    let waiting = tokio::spawn(stage.locks.lock("k").acquire());
    settle().await;
    let Stage { locks, rival, store, .. } = stage;
    drop(locks);
    guard.release().await?;
    let next = waiting.await??;
    assert_after(begun, Instant::now(), secs(5));
    next.release().await?;
    rival.lock("k").try_acquire().await?.expect("it is free").release().await?;
    settle().await;
    assert_eq!(store.keys(), 0);
    Ok(())
}

/// A hold that goes on is never taken for a rest.
#[tokio::test(start_paused = true)]
async fn a_downgrade_ends_a_rest_and_its_holder_goes_on() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").min_hold(secs(50)).await?;
    guard.downgrade().await?;
    let reader = stage.locks.lock("k").shared().acquire().await?;
    let Stage { locks, rival, .. } = stage;
    drop(locks);
    settle().await;
    assert!(guard.is_held() && reader.is_held());
    assert!(rival.lock("k").try_acquire().await?.is_none());
    sleep(secs(60)).await;
    assert!(guard.is_held() && reader.is_held(), "{:?}", guard.why_lost());
    guard.release().await?;
    reader.release().await?;
    rival.lock("k").try_acquire().await?.expect("it does not rest").release().await?;
    Ok(())
}

/// Nothing was done under it: the next may do it.
#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_took_does_not_rest() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    let mut waits = Box::pin(stage.locks.lock("k").min_hold(secs(50)).acquire());
    assert!(futures_util::poll!(&mut waits).is_pending());
    guard.release().await?;
    drop(waits);
    settle().await;
    stage.rival.lock("k").try_acquire().await?.expect("it is free").release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// A key that was had before another one could not be would rest, though nothing has run.
#[tokio::test(start_paused = true)]
async fn several_keys_cannot_rest() -> Test {
    let stage = Stage::new();
    let error = stage.locks.lock_all(["a", "b"]).min_hold(secs(5)).acquire().await.unwrap_err();
    assert!(error.to_string().contains("min_hold of several keys is 5s"), "{error}");
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_operator_ends_a_rest() -> Test {
    for by_force in [true, false] {
        let stage = Stage::new();
        stage.locks.lock("k").min_hold(secs(300)).await?.release().await?;
        // Longer than the conductor leaves a key alone.
        sleep(ms(100)).await;
        if by_force {
            assert!(stage.rival.force_release("k").await?);
        } else {
            assert!(stage.rival.request_revoke("k").await?);
        }
        let begun = Instant::now();
        stage.rival.lock("k").wait(secs(200)).await?.release().await?;
        assert!(begun.elapsed() < secs(1), "by force: {by_force}");
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_of_several_permits_rests_by_itself() -> Test {
    let stage = Stage::new();
    let one = || stage.locks.lock("k").permits(2).min_hold(secs(5));
    let (first, second) = (one().await?, one().await?);
    let begun = Instant::now();
    first.release().await?;
    sleep(secs(2)).await;
    second.release().await?;
    for _ in 0..2 {
        let next = stage.rival.lock("k").permits(2).await?;
        assert_after(begun, Instant::now(), secs(5));
        next.release().await?;
    }
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_who_shares_a_key_cannot_have_it_rest() -> Test {
    let stage = Stage::new();
    let error = stage.locks.lock("k").shared().min_hold(secs(5)).acquire().await.unwrap_err();
    let error = match error {
        lock_core::AcquireError::Rejected(rejection) => rejection,
        error => panic!("{error}"),
    };
    assert!(matches!(error, Rejection::OutOfBounds { .. }), "{error}");
    assert!(error.to_string().contains("min_hold of one that shares it is 5s"), "{error}");
    assert_eq!(LockOptions::new().min_hold, ms(0));
    stage.is_clean(secs(1)).await;
    Ok(())
}
