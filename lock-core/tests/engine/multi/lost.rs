//! One lost, all lost.

use lock_core::error::{LossReason, RunError};
use lock_core::scope::CutWatch;
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep, timeout};

use super::{KEYS, taken};
use crate::{Stage, Test, assert_after, ms, secs, settle};

#[tokio::test(start_paused = true)]
async fn when_one_is_lost_all_count_as_lost_whichever_it_is() -> Test {
    for (at, key) in KEYS.into_iter().enumerate() {
        let stage = Stage::new();
        let all = stage.locks.lock_all(KEYS).lease(secs(9)).await?;
        let (handle, mut lost) = (all.handle(), all.lost());
        assert!(timeout(secs(20), &mut lost).await.is_err());
        assert!(all.is_held() && handle.is_held() && handle.why_lost().is_none());
        assert!(all.lease_left() > secs(5) && handle.lease_left() == all.lease_left());

        assert!(stage.rival.force_release(key).await?);
        let told = timeout(ms(1), lost).await?;
        assert_eq!((told.key().as_str(), told.reason()), (key, LossReason::Taken));
        assert_eq!(Some(told.token()), all.token(key));
        assert_eq!((&told, Some(&told)), (&all.lost().await, handle.why_lost().as_ref()));
        assert_eq!(told, handle.lost().await);
        assert!(!all.is_held() && !handle.is_held());
        assert!(all.lease_left().is_zero() && handle.lease_left().is_zero());
        // Nobody else begins with the others before the holder has let go.
        assert_eq!(taken(&stage).await?, [0, 1, 2].map(|other| other != at));
        assert_eq!(handle.iter().filter(|one| one.is_held()).count(), 2);
        drop(all);
        settle().await;
        assert_eq!(taken(&stage).await?, [false; 3]);
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_least_lease_is_that_of_all() -> Test {
    let stage = Stage::new();
    // Taken first, it is the first whose time runs; its renewals hang.
    let outer = stage.locks.lock("k").lease(secs(3)).await?;
    sleep(ms(500)).await;
    let all = outer.scope(stage.locks.lock_all(KEYS).lease(secs(30)).acquire()).await?;
    assert_eq!(all.lease_left(), outer.lease_left());
    stage.script.always(Verb::Renew, Act::Never);
    let begun = Instant::now();
    let lost = all.lost().await;
    assert_eq!((lost.key().as_str(), lost.reason()), ("k", LossReason::Expired));
    assert!(begun.elapsed() <= ms(2_500), "{:?}", begun.elapsed());
    stage.script.heal();
    drop((all, outer));
    sleep(secs(1)).await;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_under_all_is_dropped_when_one_is_lost() -> Test {
    for key in KEYS {
        let stage = Stage::new();
        let watch = CutWatch::new();
        let run = stage.locks.lock_all(KEYS).run(async |all| {
            assert!(stage.rival.force_release(key).await.is_ok_and(|was_held| was_held));
            sleep(ms(100)).await;
            panic!("it goes on under {all:?}");
        });
        match watch.scope(run).await {
            Err(RunError::Lost(lost)) => assert_eq!(lost.key().as_str(), key),
            other => panic!("{other:?}"),
        }
        assert!(watch.has_seen_one());
        settle().await;
        assert_eq!(taken(&stage).await?, [false; 3]);
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_others_are_waited_for_ends_the_try_at_once() -> Test {
    for retries in [0, 1] {
        let stage = Stage::new();
        let held = stage.rival.lock("l").lease(secs(60)).await?;
        let begun = Instant::now();
        let waiting = stage.locks.lock_all(KEYS).wait(secs(5)).retries(retries).acquire();
        let waiting = tokio::spawn(waiting);
        sleep(ms(100)).await;
        assert!(stage.rival.force_release("j").await?);
        settle().await;
        assert!(!taken(&stage).await?[1], "what is not lost is given up, too");
        if retries == 0 {
            let error = waiting.await?.unwrap_err();
            assert_after(begun, Instant::now(), ms(100));
            assert!(error.is_unavailable() && error.is_retryable(), "{error}");
            assert!(error.to_string().contains("`j`"), "{error}");
            held.release().await?;
        } else {
            sleep(ms(100)).await;
            assert_eq!(taken(&stage).await?, [true; 3], "begun anew");
            held.release().await?;
            let all = waiting.await??;
            assert!(all.is_held());
            all.release().await?;
        }
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_is_granted_the_last_key_when_another_is_lost_is_not_given_a_guard() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("l").lease(secs(60)).await?;
    let waiting = tokio::spawn(stage.locks.lock_all(KEYS).lease(secs(3)).wait(secs(60)).acquire());
    settle().await;
    stage.script.always(Verb::Renew, Act::Never);
    // The lease of two ends while the grant of the third is on its way: the task is told of both
    // before it comes to run.
    sleep(ms(2_900)).await;
    held.release().await?;
    tokio::time::advance(ms(100)).await;
    let error = waiting.await?.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("`j`"), "{error}");
    stage.script.heal();
    sleep(secs(1)).await;
    stage.is_clean(secs(3)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_hold_limit_begins_when_all_are_held() -> Test {
    for key in KEYS {
        let stage = Stage::new();
        let held = stage.rival.lock(key).lease(secs(60)).await?;
        tokio::spawn(async move {
            sleep(secs(3)).await;
            drop(held);
        });
        // The first is held for longer than the limit before the last is there.
        let all = stage.locks.lock_all(KEYS).wait(secs(5)).hold_limit(secs(1)).await?;
        let begun = Instant::now();
        assert!(all.is_held());
        let lost = all.lost().await;
        assert_eq!((lost.key().as_str(), lost.reason()), ("l", LossReason::HoldLimit));
        assert_after(begun, Instant::now(), secs(1));
        // A holder that does not let go keeps the others for what was left of the wait.
        sleep(ms(5_001)).await;
        assert_eq!(taken(&stage).await?, [false; 3]);
        drop(all);
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}
