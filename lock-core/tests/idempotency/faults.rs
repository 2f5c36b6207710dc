//! A record store that is slow, silent or down, at each verb.

use bytes::Bytes;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Begun, OnUnknown};
use lock_core::test_util::records::RecordVerb::{Abort, Claim, Complete, Peek};
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep};

use crate::{
    Stage, Test, assert_after, begin, ms, rejecting, replay, run, secs, settle, spawned, waiting,
};

const DOWN: Act = Act::Err(FaultKind::Transient);

/// The time that a caller waits for the store: 2 s, or a little less where another try would end
/// after it.
#[track_caller]
fn assert_two_seconds(since: Instant) {
    let took = since.elapsed();
    assert!(took > ms(900) && took <= ms(2_005), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_not_answered_is_repeated() -> Test {
    for act in [DOWN, Act::Lost] {
        let stage = Stage::new();
        stage.script.next(Peek, act);
        run(&stage.once).await.abort().await?;
        assert_eq!(stage.script.calls_of(Peek).len(), 2);
        stage.is_clean(0, secs(1)).await;
    }
    Ok(())
}

/// Nothing runs, and all duplicates are told, not one after the other.
#[tokio::test(start_paused = true)]
async fn while_the_store_is_down_all_duplicates_are_refused_within_two_seconds() -> Test {
    for act in [DOWN, Act::Never, Act::Stuck] {
        for verb in [Peek, Claim] {
            let stage = Stage::new();
            stage.script.always(verb, act);
            let since = Instant::now();
            let requests: Vec<_> = (0..5).map(|_| spawned(&stage.once)).collect();
            for request in requests {
                let error = request.await?.unwrap_err();
                assert!(error.is_unavailable() && error.is_retryable(), "{error}");
            }
            assert_two_seconds(since);
            assert_eq!(stage.once.stats().failed, 5);
            stage.script.heal();
            let next = run(&stage.other).await;
            assert_eq!(next.replaced(), None, "what was claimed was taken back");
            next.complete(Bytes::from_static(b"paid")).await?;
            stage.is_clean(1, secs(1)).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_not_asked_again() -> Test {
    for kind in [FaultKind::Refused, FaultKind::ForeignValue] {
        for verb in [Peek, Claim] {
            let stage = Stage::new();
            stage.script.always(verb, Act::Err(kind));
            let since = Instant::now();
            let error = begin(&stage.once).await.unwrap_err();
            assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
            assert_after(since, secs(0));
            assert_eq!(stage.script.calls_of(verb).len(), 1);
            stage.is_clean(0, secs(1)).await;
        }
    }
    Ok(())
}

/// It is asked again under the same token, and answered as the first was.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_runs_once() -> Test {
    for times in 1..4 {
        let stage = Stage::new();
        for _ in 0..times {
            stage.script.next(Claim, Act::Lost);
        }
        let execution = run(&stage.once).await;
        assert_eq!(execution.replaced(), None);
        let replies: Vec<_> =
            stage.script.calls_of(Claim).into_iter().map(|call| call.reply).collect();
        assert_eq!(replies.len(), times + 1);
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
        execution.complete(Bytes::from_static(b"paid")).await?;
        assert_eq!(replay(&stage.other).await, "paid");
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

/// The claim took effect, nobody was told, and its owner may not run: the record is taken back
/// before the lock is, so that the next finds nothing.
#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_was_told_of_is_taken_back_before_the_next_may_claim() -> Test {
    let stage = Stage::new();
    stage.script.always(Claim, Act::Lost);
    let first = spawned(&stage.once);
    stage.script.called(Claim, 1).await;
    let refusing = stage.other.clone().with_on_unknown(OnUnknown::Refuse);
    let Begun::Run(next) = begin(&refusing).await? else { panic!("nothing was begun") };
    assert_eq!(next.replaced(), None);
    assert!(first.await?.unwrap_err().is_unavailable());
    next.abort().await?;
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_reply_was_lost_is_repeated_and_done() -> Test {
    for act in [DOWN, Act::Lost] {
        let stage = Stage::new();
        let execution = run(&stage.once).await;
        stage.script.next(Complete, act);
        stage.script.next(Complete, act);
        execution.complete(Bytes::from_static(b"paid")).await?;
        assert_eq!(stage.script.calls_of(Complete).len(), 3);
        assert_eq!(replay(&stage.other).await, "paid");
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

/// Rule 15: the caller has its answer after 2 s, and so have its duplicates here; those elsewhere
/// wait on, as the lock is still held, and are given it when the store is back.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_store_does_not_take_in_time_is_written_behind_the_callers_back() -> Test
{
    for act in [DOWN, Act::Stuck] {
        let stage = Stage::new();
        let execution = run(&stage.once).await;
        let here = spawned(&stage.once);
        let elsewhere = spawned(&waiting(&stage.other, secs(60)));
        settle().await;
        stage.script.always(Complete, act);
        let since = Instant::now();
        let error = execution.complete(Bytes::from_static(b"paid")).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_after(since, secs(2));
        assert!(matches!(here.await??, Begun::Replay(payload) if payload == "paid"));
        assert_after(since, secs(2));
        sleep(secs(20)).await;
        assert!(!elsewhere.is_finished(), "the lock is still held");
        assert!(matches!(begin(&rejecting(&stage.other)).await?, Begun::InFlight { .. }));
        stage.script.heal();
        assert!(matches!(elsewhere.await??, Begun::Replay(payload) if payload == "paid"));
        let stats = stage.once.stats();
        assert_eq!((stats.unwritten_completions, stats.completed), (1, 1));
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

/// Rule 15, when the store never comes back: the record is not deleted, and tells the next that
/// the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_never_written_leaves_the_record_in_flight() -> Test {
    for act in [DOWN, Act::Stuck] {
        let stage = Stage::new();
        let execution = run(&stage.once.clone().with_in_flight_ttl(secs(30))).await;
        let token = execution.token();
        stage.script.always(Complete, act);
        assert!(execution.complete(Bytes::from_static(b"paid")).await.is_err());
        let refusing = waiting(&stage.other, secs(60)).with_on_unknown(OnUnknown::Refuse);
        let since = Instant::now();
        let begun = begin(&refusing).await?;
        assert!(matches!(begun, Begun::Unknown { .. }), "{begun:?}");
        let took = since.elapsed();
        assert!(took >= secs(28) && took <= ms(38_005), "the lock was held for {took:?}");
        assert_eq!(stage.script.calls_of(Abort).len(), 0);
        let again = run(&stage.other).await;
        assert_eq!(again.replaced(), Some(token));
        again.abort().await?;
        // The outcome of the first is as unknown as before.
        let begun = begin(&refusing).await?;
        assert!(matches!(begun, Begun::Unknown { .. }), "{begun:?}");
        stage.script.heal();
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_abort_whose_reply_was_lost_is_repeated_and_done() -> Test {
    for act in [DOWN, Act::Lost] {
        let stage = Stage::new();
        stage.script.next(Abort, act);
        run(&stage.once).await.abort().await?;
        assert!(stage.records.is_empty());
        stage.is_clean(0, secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_abort_that_the_store_does_not_take_in_time_goes_on_under_the_lock() -> Test {
    let stage = Stage::new();
    let execution = run(&stage.once).await;
    let here = spawned(&waiting(&stage.once, secs(60)));
    let elsewhere = spawned(&waiting(&stage.other, secs(60)));
    settle().await;
    stage.script.always(Abort, DOWN);
    let since = Instant::now();
    assert!(execution.abort().await.unwrap_err().is_unavailable());
    assert_after(since, secs(2));
    sleep(secs(20)).await;
    // Nobody is failed by it: a retry is about to run.
    assert!(!here.is_finished() && !elsewhere.is_finished());
    stage.script.heal();
    let Begun::Run(next) = elsewhere.await?? else { panic!("it runs") };
    assert_eq!(next.replaced(), None);
    next.complete(Bytes::from_static(b"paid")).await?;
    assert!(matches!(here.await??, Begun::Replay(payload) if payload == "paid"));
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn while_the_lock_store_is_down_nothing_runs_and_outcomes_are_still_replayed() -> Test {
    let stage = Stage::new();
    run(&stage.other).await.complete(Bytes::from_static(b"paid")).await?;
    stage.lock_script.always(Verb::Attempt, DOWN);
    assert_eq!(replay(&stage.once).await, "paid");
    let scope = lock_core::idempotency::Scope::Global;
    let error = stage.once.begin(&scope, b"other", crate::ASKED).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    stage.lock_script.heal();
    stage.is_clean(1, secs(5)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_shut_down_refuses_and_replays() -> Test {
    let stage = Stage::new();
    run(&stage.once).await.complete(Bytes::from_static(b"paid")).await?;
    assert!(stage.once.locks().shutdown(secs(1)).await.complete);
    assert_eq!(replay(&stage.once).await, "paid");
    let scope = lock_core::idempotency::Scope::Global;
    let error = stage.once.begin(&scope, b"other", crate::ASKED).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}
