//! One budget for all keys.

use lock_core::AcquireError;
use lock_core::backend::FaultKind;
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep};

use super::{KEYS, taken};
use crate::{Stage, Test, assert_after, ms, secs, settle};

const FAULT: Act = Act::Err(FaultKind::Transient);

#[tokio::test(start_paused = true)]
async fn each_key_has_what_the_ones_before_have_left() -> Test {
    for (first, second, third) in [(300, 400, None), (0, 999, None), (300, 300, Some(300))] {
        let stage = Stage::new();
        let begun = Instant::now();
        for (key, until) in KEYS.into_iter().zip([Some(first), Some(second), third]) {
            let held = stage.rival.lock(key).lease(secs(60)).await?;
            tokio::spawn(async move {
                // Each is let go when the one before was had for so long.
                match (key, until) {
                    ("j", Some(until)) => sleep(ms(until)).await,
                    ("k", Some(until)) => sleep(ms(first + until)).await,
                    (_, Some(until)) => sleep(ms(first + second + until)).await,
                    (_, None) => sleep(secs(20)).await,
                }
                drop(held);
            });
        }
        match (third, stage.locks.lock_all(KEYS).wait(secs(1)).await) {
            (Some(third), Ok(all)) => {
                assert_after(begun, Instant::now(), ms(first + second + third));
                all.release().await?;
            }
            (None, Err(AcquireError::Timeout(error))) => {
                assert_after(begun, Instant::now(), secs(1));
                assert_eq!((error.key().as_str(), error.wait(), error.tries()), ("l", secs(1), 1));
                assert!(error.waited() >= secs(1) && error.waited() <= ms(1_002));
            }
            (_, other) => panic!("{other:?}"),
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_keys_together_end_within_the_budget_whatever_verb_hangs() -> Test {
    for act in [Act::Never, Act::Stuck, Act::Slow(ms(250)), Act::Slow(ms(900)), FAULT, Act::Lost] {
        for verbs in [&[Verb::Attempt][..], &[Verb::Renew], &[Verb::Withdraw], &Verb::ALL] {
            for (wait, retries) in [(ms(0), 0), (ms(300), 0), (ms(300), 2)] {
                let stage = Stage::new();
                let held = stage.rival.lock("l").lease(secs(60)).await?;
                verbs.iter().for_each(|verb| stage.script.always(*verb, act));
                let begun = Instant::now();
                let error =
                    stage.locks.lock_all(KEYS).wait(wait).retries(retries).await.unwrap_err();
                let took = begun.elapsed();
                let budget = if wait.is_zero() { secs(2) } else { wait * (1 + retries) };
                assert!(took <= budget + ms(2), "{act:?} {verbs:?} {wait:?}: {took:?}");
                assert!(error.is_timeout() || error.is_unavailable(), "{act:?} {verbs:?}: {error}");
                stage.script.heal();
                held.release().await?;
                // A slow request stays slow.
                stage.rival.lock_all(KEYS).wait(secs(5)).await?.release().await?;
                stage.is_clean(secs(20)).await;
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_that_fails_gives_all_up_before_the_next_and_the_last_tells_of_the_whole() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("l").lease(secs(60)).await?;
    let begun = Instant::now();
    let waiting = tokio::spawn(stage.locks.lock_all(KEYS).wait(ms(200)).retries(3).acquire());
    settle().await;
    // Another one stands in line for a key that is held while the last one is waited for.
    let next = stage.rival.lock("j").wait(secs(5)).await?;
    assert_after(begun, Instant::now(), ms(200));
    next.release().await?;
    let error = waiting.await?.unwrap_err();
    assert_after(begun, Instant::now(), ms(800));
    match error {
        AcquireError::Timeout(error) => {
            assert_eq!((error.key().as_str(), error.wait(), error.tries()), ("l", ms(200), 4));
            assert!(error.waited() >= ms(800), "{error}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(taken(&stage).await?, [false, false, true]);
    held.release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_may_pass_is_tried_again_from_the_first_key() -> Test {
    let stage = Stage::new();
    for act in [Act::Ok, Act::Ok, FAULT] {
        stage.script.next(Verb::Attempt, act);
    }
    // The engine asks again within one try, so the try is over before the store is well.
    stage.script.always(Verb::Attempt, FAULT);
    let waiting = tokio::spawn(stage.locks.lock_all(KEYS).wait(ms(100)).retries(1).acquire());
    sleep(ms(101)).await;
    assert_eq!(taken(&stage).await?, [false; 3]);
    stage.script.heal();
    let all = waiting.await??;
    assert_eq!(taken(&stage).await?, [true; 3]);
    all.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn under_admission_the_budget_is_one_wait() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("k").lease(secs(60)).await?;
    let begun = Instant::now();
    let several = stage.locks.lock_all(KEYS).wait(ms(100)).retries(4).admission(true);
    let error = several.await.unwrap_err();
    assert_after(begun, Instant::now(), ms(500));
    match error {
        AcquireError::Timeout(error) => assert_eq!((error.wait(), error.tries()), (ms(500), 1)),
        other => panic!("{other}"),
    }
    held.release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}
