//! Records that are gone before their time, and stores that come back late.

use bytes::Bytes;
use lock_core::backend::FaultKind;
use lock_core::error::LossReason;
use lock_core::idempotency::{
    Begun, Idempotency, MemoryRecords, OnUnknown, Outcome, RecordStore, Scope,
};
use lock_core::options::Background;
use lock_core::test_util::records::RecordVerb::{Abort, Claim, Complete};
use lock_core::test_util::{Act, Verb};
use lock_core::{FencingToken, LockClient};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::{
    ASKED, Stage, Test, assert_after, begin, ms, rejecting, replay, run, secs, settle, spawned,
    waiting,
};

const DOWN: Act = Act::Err(FaultKind::Transient);

/// The record vanishes, as by an eviction, a flush or an operator.
async fn vanish(stage: &Stage, token: FencingToken) -> Test {
    let id = stage.once.record_id(&Scope::of("tenant"), b"key");
    stage.records.complete(id, token, &Outcome::WithoutPayload, ms(1)).await?;
    sleep(ms(2)).await;
    assert!(stage.records.is_empty());
    Ok(())
}

/// Nobody has begun since, so nothing speaks against the outcome, and the retry is given it.
#[tokio::test(start_paused = true)]
async fn an_outcome_whose_record_has_vanished_is_kept_all_the_same() -> Test {
    for lost_replies in [false, true] {
        let stage = Stage::new();
        let execution = run(&stage.once).await;
        vanish(&stage, execution.token()).await?;
        if lost_replies {
            for verb in [Complete, Claim, Complete] {
                stage.script.next(verb, Act::Lost);
            }
        }
        execution.complete(Bytes::from_static(b"paid")).await?;
        assert_eq!(replay(&stage.other).await, "paid");
        let stats = stage.once.stats();
        assert_eq!((stats.completed, stats.stale_completions), (1, 0));
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

/// Another one has begun and ended since: its outcome stays.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_was_overtaken_is_stale_though_its_own_record_had_vanished() -> Test {
    let stage = Stage::new();
    let late = run(&stage.once).await;
    vanish(&stage, late.token()).await?;
    stage.lock_script.always(Verb::Renew, DOWN);
    assert_eq!(late.lost().await.reason(), LossReason::Expired);
    let next = run(&stage.other).await;
    assert_eq!(next.replaced(), None);
    next.complete(Bytes::from_static(b"next")).await?;
    assert!(late.complete(Bytes::from_static(b"late")).await.unwrap_err().is_stale());
    assert_eq!(replay(&stage.once).await, "next");
    stage.lock_script.heal();
    stage.is_clean(1, secs(20)).await;
    Ok(())
}

/// A refresh that fails is tried again long before the record's life is over.
#[tokio::test(start_paused = true)]
async fn a_record_outlives_a_store_that_is_down_for_half_of_its_life() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone().with_in_flight_ttl(secs(30)).with_lease(secs(10));
    let execution = run(&once).await;
    sleep(secs(5)).await;
    stage.script.always(Claim, DOWN);
    sleep(secs(17)).await;
    stage.script.always(Claim, Act::Ok);
    sleep(secs(5)).await;
    stage.script.always(Claim, DOWN);
    // 33 s after the claim, and 11 s at most after the refresh.
    sleep(secs(6)).await;
    let refusing = rejecting(&stage.other);
    let begun = begin(&refusing).await?;
    assert!(matches!(begun, Begun::InFlight { age } if age == secs(33)), "{begun:?}");
    stage.script.heal();
    execution.abort().await?;
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

/// The store is away for nine minutes; the outcome is written when it is back.
#[tokio::test(start_paused = true)]
async fn an_outcome_in_hand_is_not_given_up_for_ten_minutes() -> Test {
    for act in [DOWN, Act::Stuck] {
        let stage = Stage::new();
        let execution = run(&stage.once).await;
        stage.script.always(Complete, act);
        assert!(
            execution.complete(Bytes::from_static(b"paid")).await.unwrap_err().is_unavailable()
        );
        sleep(secs(9 * 60)).await;
        assert!(matches!(begin(&rejecting(&stage.other)).await?, Begun::InFlight { .. }));
        // It may be large, so it is not sent each second.
        let sent = stage.script.calls_of(Complete).len();
        assert!((30..=130).contains(&sent), "{sent} times in nine minutes");
        stage.script.heal();
        sleep(secs(15)).await;
        assert_eq!(replay(&stage.other).await, "paid");
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

/// A service waits for this before it ends.
#[tokio::test(start_paused = true)]
async fn an_engine_is_idle_when_its_last_outcome_is_written() -> Test {
    let stage = Stage::new();
    assert!(stage.once.idle(secs(0)).await);
    let execution = run(&stage.once).await;
    stage.script.always(Complete, DOWN);
    assert!(execution.complete(Bytes::from_static(b"paid")).await.is_err());
    let since = Instant::now();
    assert!(!stage.once.idle(secs(5)).await);
    assert_after(since, secs(5));
    stage.script.heal();
    assert!(stage.once.idle(secs(15)).await);
    assert_eq!(replay(&stage.other).await, "paid");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// The process is stopped, and all its time is over when it goes on: it tries once more.
#[tokio::test(start_paused = true)]
async fn an_outcome_in_hand_is_written_by_a_process_that_was_stopped_for_an_hour() -> Test {
    for act in [DOWN, Act::Stuck] {
        let stage = Stage::new();
        let execution = run(&stage.once).await;
        stage.script.always(Complete, act);
        let completing = tokio::spawn(execution.complete(Bytes::from_static(b"paid")));
        settle().await;
        stage.script.next(Complete, Act::Slow(ms(1_500)));
        stage.script.always(Complete, Act::Ok);
        tokio::time::advance(secs(60 * 60)).await;
        drop(completing.await?);
        sleep(secs(15)).await;
        assert_eq!(replay(&stage.other).await, "paid");
        stage.is_clean(1, secs(1)).await;
    }
    Ok(())
}

/// Its lock is lost while its outcome is on the way: duplicates here do not wait for it.
#[tokio::test(start_paused = true)]
async fn duplicates_do_not_wait_for_a_completion_or_an_abort_that_has_lost_its_lock() -> Test {
    for aborts in [false, true] {
        let stage = Stage::new();
        let execution = run(&stage.once).await;
        let late = execution.token();
        stage.lock_script.always(Verb::Renew, DOWN);
        sleep(ms(8_500)).await;
        let here = spawned(&waiting(&stage.once, secs(25)));
        settle().await;
        stage.script.always(Complete, DOWN);
        stage.script.always(Abort, DOWN);
        let ending = tokio::spawn(async move {
            match aborts {
                true => execution.abort().await,
                false => execution.complete(Bytes::from_static(b"late")).await,
            }
        });
        sleep(secs(1)).await;
        assert!(!here.is_finished());
        sleep(secs(2)).await;
        stage.lock_script.heal();
        let Begun::Run(next) = here.await?? else { panic!("the next in line runs") };
        assert_eq!(next.replaced(), Some(late));
        assert!(ending.await?.unwrap_err().is_unavailable());
        stage.script.heal();
        next.complete(Bytes::from_static(b"next")).await?;
        assert_eq!(replay(&stage.other).await, "next");
        sleep(secs(15)).await;
        stage.is_clean(1, secs(20)).await;
    }
    Ok(())
}

/// The leader gives up on the lock store before it was given its time; who waits longer is not
/// failed with it.
#[tokio::test(start_paused = true)]
async fn a_leader_with_little_time_does_not_fail_who_has_more() -> Test {
    let stage = Stage::new();
    stage.lock_script.always(Verb::Attempt, DOWN);
    let hasty = spawned(&waiting(&stage.once, ms(300)));
    settle().await;
    let patient = spawned(&waiting(&stage.once, secs(30)));
    let since = Instant::now();
    let hasty = hasty.await?;
    assert!(!matches!(hasty, Ok(Begun::Run(_))), "{hasty:?}");
    assert!(since.elapsed() < secs(2));
    settle().await;
    assert!(!patient.is_finished(), "{:?}", patient.await?);
    stage.lock_script.heal();
    let Begun::Run(execution) = patient.await?? else { panic!("it runs") };
    execution.abort().await?;
    stage.is_clean(0, secs(5)).await;
    Ok(())
}

/// A later refusal does not hide that an earlier claim may have been made.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_lost_and_then_refused_is_taken_back() -> Test {
    let stage = Stage::new();
    stage.script.next(Claim, Act::Lost);
    stage.script.next(Claim, Act::Err(FaultKind::Refused));
    let since = Instant::now();
    assert!(!begin(&stage.once).await.unwrap_err().is_retryable());
    assert!(since.elapsed() < secs(1));
    let refusing = stage.other.clone().with_on_unknown(OnUnknown::Refuse);
    let Begun::Run(next) = begin(&refusing).await? else { panic!("nothing was begun") };
    next.abort().await?;
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

/// The runtime that keeps the execution is blocked: who ends it is answered all the same.
#[test]
fn who_ends_an_execution_is_answered_though_its_keeper_is_stuck() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime")
    };
    let (kept, ours) = (runtime(), runtime());
    let execution = kept.block_on(async { run(&Stage::new().once).await });
    // Nobody drives `kept` from here on.
    let error = ours.block_on(async {
        let since = Instant::now();
        let error = execution.complete(Bytes::from_static(b"paid")).await.unwrap_err();
        assert_after(since, ms(2_500));
        error
    });
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("does not answer"), "{error}");
    drop(kept);
}

/// A service with a lock client of its own thread, as one over a network has.
async fn on_a_thread() -> Idempotency {
    let locks = LockClient::builder("memory:").background(Background::Thread);
    let locks = locks.connect().await.expect("a client");
    rejecting(&Idempotency::new("tests", locks, MemoryRecords::new()))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// As work on a thread that outlives the runtime in which it was begun.
#[test]
fn an_execution_whose_runtime_has_ended_holds_its_lock_until_it_is_over() {
    let (first, second) = (runtime(), runtime());
    let once = second.block_on(on_a_thread());
    let execution = first.block_on(run(&once));
    drop(first);
    assert!(execution.handle().is_held());
    let begun = second.block_on(begin(&once)).expect("an answer");
    assert!(matches!(begun, Begun::InFlight { .. }), "{begun:?}");
    let token = execution.token();
    let error = second.block_on(execution.complete(Bytes::from_static(b"late"))).unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let next = second.block_on(waiting(&once, secs(20)).begin(&Scope::of("tenant"), b"key", ASKED));
    let Ok(Begun::Run(next)) = next else { panic!("{next:?}") };
    assert_eq!(next.replaced(), Some(token));
    second.block_on(next.abort()).expect("it is the latest");
}

/// Its task is kept by a runtime that nobody drives.
#[test]
fn an_end_is_told_in_time_to_a_caller_without_a_runtime() {
    let mut undriven = tokio::runtime::Builder::new_current_thread();
    let undriven = undriven.enable_all().build().unwrap();
    let execution = undriven.block_on(async { run(&on_a_thread().await).await });
    let ended = futures_executor::block_on(execution.complete(Bytes::from_static(b"paid")));
    assert!(ended.unwrap_err().is_unavailable());
}
