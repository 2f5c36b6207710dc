//! All are given up together, the last one first.

use lock_core::backend::{ClaimId, FaultKind};
use lock_core::error::ReleaseError;
use lock_core::test_util::{Act, Cut, Verb, cut};
use tokio::time::{Instant, sleep};

use super::{KEYS, taken};

use crate::{Stage, Test, assert_after, ms, secs, settle};

/// The claims in the order in which they were opened, which is that of the keys.
fn opened(stage: &Stage) -> Vec<ClaimId> {
    stage.script.claims().iter().map(|(claim, _)| *claim).collect()
}

/// The claims in the order in which they were withdrawn.
fn withdrawn(stage: &Stage) -> Vec<ClaimId> {
    stage.script.calls_of(Verb::Withdraw).iter().map(|call| call.claim).collect()
}

#[tokio::test(start_paused = true)]
async fn the_last_key_is_given_up_first_by_a_release_and_by_a_drop() -> Test {
    for is_released in [true, false] {
        let stage = Stage::new();
        let many: Vec<_> = (0..40).map(|number| format!("k{number:02}")).collect();
        let all = stage.locks.lock_all(&many).await?;
        if is_released {
            all.release().await?
        } else {
            drop(all)
        }
        settle().await;
        let expected: Vec<_> = opened(&stage).into_iter().rev().collect();
        assert_eq!((withdrawn(&stage), expected.len()), (expected, 40));
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_had_frees_those_before_it_the_last_one_first() -> Test {
    for (act, answered_after) in [(Act::Ok, ms(0)), (Act::Slow(ms(50)), ms(50))] {
        let stage = Stage::new();
        for reply in [Act::Ok, Act::Ok, Act::Ok, Act::Err(FaultKind::Refused)] {
            stage.script.next(Verb::Attempt, reply);
        }
        stage.script.always(Verb::Withdraw, act);
        let begun = Instant::now();
        let error = stage.locks.lock_all(["m", "l", "k", "j"]).await.unwrap_err();
        assert_eq!(error.key().map(ToString::to_string).as_deref(), Some("m"), "{error}");
        assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
        // The store has answered when the error is returned.
        assert_after(begun, Instant::now(), answered_after);
        let claims = opened(&stage);
        let of_held: Vec<_> = withdrawn(&stage).into_iter().filter(|id| *id != claims[3]).collect();
        assert_eq!(of_held, [claims[2], claims[1], claims[0]]);
        assert_eq!(taken(&stage).await?, [false; 3]);
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_goes_on_with_the_others_and_tells_the_first_error_by_its_key() -> Test {
    for (lost, told) in [(&["j"][..], "j"), (&["k"], "k"), (&["l"], "l"), (&["l", "k"], "k")] {
        let stage = Stage::new();
        let all = stage.locks.lock_all(KEYS).await?;
        let token = all.token(told);
        for key in lost {
            assert!(stage.rival.force_release(*key).await?);
        }
        match all.release().await {
            Err(ReleaseError::NotHeld { key, token: of }) => {
                assert_eq!((key.as_str(), Some(of)), (told, token));
            }
            other => panic!("{lost:?}: {other:?}"),
        }
        assert_eq!(taken(&stage).await?, [false; 3]);
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_all_answers_at_once() -> Test {
    for (act, answer) in [(Act::Slow(ms(300)), ms(300)), (Act::Never, secs(2))] {
        let stage = Stage::new();
        let many: Vec<_> = (0..40).map(|number| format!("k{number:02}")).collect();
        let all = stage.locks.lock_all(&many).await?;
        stage.script.always(Verb::Withdraw, act);
        let begun = Instant::now();
        let released = all.release().await;
        assert_after(begun, Instant::now(), answer);
        match (act, released) {
            (Act::Slow(_), Ok(())) => {}
            (Act::Never, Err(error)) => {
                assert!(error.is_unavailable() && error.key().as_str() == "k00", "{error}");
            }
            (_, other) => panic!("{other:?}"),
        }
        stage.script.heal();
        stage.is_clean(secs(3)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_is_under_way_for_all_keys_with_its_first_poll() -> Test {
    let stage = Stage::new();
    let many: Vec<_> = (0..40).map(|number| format!("k{number:02}")).collect();
    let all = stage.locks.lock_all(&many).await?;
    stage.script.always(Verb::Withdraw, Act::Never);
    assert!(cut(Cut::Turns(0), all.release()).await.is_none());
    let expected: Vec<_> = opened(&stage).into_iter().rev().collect();
    assert_eq!(withdrawn(&stage), expected);
    stage.script.heal();
    sleep(ms(1)).await;
    assert!(withdrawn(&stage).len() == 40, "none is asked twice");
    stage.is_clean(ms(1)).await;
    Ok(())
}
