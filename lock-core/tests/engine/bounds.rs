//! Waits end in time, and say which bound they hit.

use lock_core::AcquireError;
use lock_core::backend::FaultKind;
use lock_core::error::BlockedBy;
use lock_core::limits::HOLD_LIMIT_MIN;
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep};

use crate::{Stage, Test, assert_after, ms, secs, settle};

const FAULT: Act = Act::Err(FaultKind::Transient);

#[tokio::test(start_paused = true)]
async fn a_wait_ends_within_its_budget_whatever_verb_hangs() -> Test {
    for act in [Act::Never, Act::Stuck, Act::Slow(secs(5)), FAULT, Act::Lost] {
        for verbs in [&[Verb::Attempt][..], &[Verb::Renew], &[Verb::Withdraw], &Verb::ALL] {
            for (wait, retries) in [(ms(0), 0), (ms(300), 0), (ms(300), 2)] {
                let stage = Stage::new();
                let held = stage.rival.lock("k").lease(secs(60)).await?;
                verbs.iter().for_each(|verb| stage.script.always(*verb, act));
                let begun = Instant::now();
                let error = stage.locks.lock("k").wait(wait).retries(retries).await.unwrap_err();
                let took = begun.elapsed();
                let tried = if wait.is_zero() { secs(2) } else { wait };
                assert!(
                    took <= tried * (1 + retries) + ms(20),
                    "{act:?} {verbs:?} {wait:?}: {took:?}"
                );
                if verbs.contains(&Verb::Attempt) && (!wait.is_zero() || act != Act::Slow(secs(5)))
                {
                    assert!(error.is_unavailable(), "{act:?} {verbs:?} {wait:?}: {error}");
                } else if !verbs.contains(&Verb::Attempt) {
                    assert!(error.is_timeout(), "{act:?} {verbs:?} {wait:?}: {error}");
                }
                stage.script.heal();
                held.release().await?;
                // A slow request stays slow.
                stage.rival.lock("k").wait(secs(15)).await?.release().await?;
                stage.is_clean(secs(20)).await;
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pauses_between_tries_are_a_part_of_the_budget_however_many_there_are() -> Test {
    for (wait, retries) in [(ms(10), 100), (ms(1), 1_000), (secs(1), 1), (ms(1), 0)] {
        for act in [None, Some(FAULT), Some(Act::Never)] {
            let stage = Stage::new();
            let _held = stage.rival.lock("k").lease(secs(60)).await?;
            if let Some(act) = act {
                stage.script.always(Verb::Attempt, act);
            }
            let begun = Instant::now();
            let mut acquire = stage.locks.lock("k").wait(wait).retries(retries).acquire();
            assert!((&mut acquire).await.is_err());
            let (took, budget) = (begun.elapsed(), wait * (1 + retries));
            assert!(took <= budget + ms(2), "{wait:?} x {retries}, {act:?}: {took:?}");
            // Nor is it given up long before.
            assert!(took >= budget / 2, "{wait:?} x {retries}, {act:?}: {took:?}");
            assert!(acquire.tries() <= 1 + retries);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_its_place_during_one_wait_and_loses_it_between_tries() -> Test {
    for (release_after, first_is_next) in [(ms(50), true), (ms(110), false)] {
        let stage = Stage::new();
        let held = stage.locks.lock("k").await?;
        let first = tokio::spawn(stage.locks.lock("k").wait(ms(100)).retries(5).acquire());
        settle().await;
        let second = tokio::spawn(stage.locks.lock("k").wait(secs(1)).acquire());
        sleep(release_after).await;
        held.release().await?;
        settle().await;
        assert_eq!((first.is_finished(), second.is_finished()), (first_is_next, !first_is_next));
        let (first, second) = if first_is_next { (first, second) } else { (second, first) };
        first.await??.release().await?;
        second.await??.release().await?;
        stage.is_clean(secs(20)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_nothing_is_one_try_whatever_the_retries() -> Test {
    let stage = Stage::new();
    let _held = stage.rival.lock("k").lease(secs(60)).await?;
    let begun = Instant::now();
    let mut acquire = stage.locks.lock("k").wait(ms(0)).retries(5).acquire();
    assert!((&mut acquire).await.unwrap_err().is_timeout());
    assert_eq!((acquire.tries(), begun.elapsed()), (1, ms(0)));
    Ok(())
}

/// Why a wait of one second ended.
async fn ended(stage: &Stage) -> AcquireError {
    stage.locks.lock("k").wait(secs(1)).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_wait_behind_others_ends_with_timeout_and_tells_how_many() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("k").lease(secs(60)).await?;
    match ended(&stage).await {
        AcquireError::Timeout(error) => {
            assert_eq!(error.blocked_by(), &BlockedBy::Others { ahead: Some(1) });
            assert_eq!((error.tries(), error.wait()), (1, secs(1)));
            let holder = stage.rival.inspect("k").await?.holders.remove(0);
            let named = error.holder().expect("the store was asked");
            assert_eq!((&named.claim, named.token), (&holder.claim, holder.token));
        }
        other => panic!("{other}"),
    }
    held.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_behind_a_guard_of_this_client_is_a_timeout_even_if_the_store_is_in_trouble() -> Test
{
    let stage = Stage::new();
    let held = stage.locks.lock("k").lease(secs(6)).await?;
    for verb in Verb::ALL {
        stage.script.always(verb, FAULT);
    }
    sleep(secs(3)).await;
    match ended(&stage).await {
        AcquireError::Timeout(error) => {
            assert_eq!(error.blocked_by(), &BlockedBy::ThisClient { token: held.token() });
            assert_eq!(error.holder(), None);
        }
        other => panic!("{other}"),
    }
    stage.script.heal();
    held.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stopped_answering_is_unavailable_and_one_that_came_back_a_timeout() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("k").lease(ms(1_500)).await?;
    stage.script.next(Verb::Attempt, Act::Ok);
    stage.script.always(Verb::Attempt, FAULT);
    // A try that is due for its recheck, and is told nothing any more.
    let waiting = tokio::spawn(stage.locks.lock("k").wait(secs(2)).acquire());
    sleep(ms(1_900)).await;
    let error = waiting.await?.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    stage.script.next(Verb::Attempt, FAULT);
    stage.script.always(Verb::Attempt, Act::Ok);
    let error = ended(&stage).await;
    assert!(error.is_timeout(), "{error}");
    held.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_the_store_said_to_an_earlier_claim_does_not_make_silence_a_timeout() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("k").lease(secs(60)).await?;
    // Keeps the key busy between the two.
    stage.script.next(Verb::Withdraw, Act::Never);
    assert!(ended(&stage).await.is_timeout());
    stage.script.always(Verb::Attempt, Act::Never);
    let error = ended(&stage).await;
    assert!(error.is_unavailable(), "{error}");
    stage.script.heal();
    held.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_wait_at_once_and_is_not_tried_again() -> Test {
    for kind in [FaultKind::Refused, FaultKind::ForeignValue] {
        let stage = Stage::new();
        stage.script.always(Verb::Attempt, Act::Err(kind));
        let begun = Instant::now();
        let error = stage.locks.lock("k").retries(5).await.unwrap_err();
        assert!(error.is_unavailable() && !error.is_retryable());
        assert!(begun.elapsed() < ms(2));
        assert_eq!(stage.script.calls_of(Verb::Attempt).len(), 1);
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_passed_over_within_the_budget() -> Test {
    let stage = Stage::new();
    for _ in 0..3 {
        stage.script.next(Verb::Attempt, FAULT);
    }
    stage.locks.lock("k").wait(secs(1)).await?.release().await?;
    assert_eq!(stage.script.calls_of(Verb::Attempt).len(), 4);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_task_that_locks_a_key_twice_without_a_scope_is_told_its_own_token() -> Test {
    let stage = Stage::new();
    let held = stage.locks.lock("k").await?;
    let begun = Instant::now();
    match ended(&stage).await {
        AcquireError::Timeout(error) => {
            assert_eq!(error.blocked_by(), &BlockedBy::ThisClient { token: held.token() });
            assert!(error.to_string().contains(&held.token().to_string()), "{error}");
        }
        other => panic!("{other}"),
    }
    assert_after(begun, Instant::now(), secs(1));
    held.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_tasks_that_lock_two_keys_in_opposite_order_end_at_their_budgets() -> Test {
    let stage = Stage::new();
    let mut tasks = Vec::new();
    for (first, second, wait) in [("a", "b", secs(1)), ("b", "a", secs(2))] {
        let locks = stage.locks.clone();
        tasks.push(tokio::spawn(async move {
            let held = locks.lock(first).await?;
            settle().await;
            let begun = Instant::now();
            let other = locks.lock(second).wait(wait).await;
            assert!(held.is_held() && begun.elapsed() <= wait + ms(20));
            match other {
                Ok(guard) => guard.release().await.map_err(Into::into),
                Err(error) => Err::<(), Box<dyn std::error::Error + Send + Sync>>(error.into()),
            }
        }));
    }
    let second = tasks.pop().expect("two tasks").await?;
    let first = tasks.pop().expect("two tasks").await?;
    let error = first.expect_err("the shorter wait ends first").to_string();
    assert!(error.contains("`b`") && error.contains("this client holds it"), "{error}");
    second.map_err(|error| format!("the other goes on then: {error}"))?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_would_be_over_before_it_is_seen_is_refused_before_anything_is_sent() -> Test {
    let stage = Stage::new();
    let begun = Instant::now();
    for nanos in [1, 1_000, 999_999] {
        let limit = std::time::Duration::from_nanos(nanos);
        let limited = stage.locks.lock("k").hold_limit(limit).await;
        assert!(matches!(limited, Err(AcquireError::Rejected(_))), "{limit:?}: {limited:?}");
    }
    assert_eq!((begun.elapsed(), stage.script.calls().len()), (ms(0), 0));
    stage.locks.lock("k").hold_limit(HOLD_LIMIT_MIN).await?.release().await?;
    Ok(())
}
