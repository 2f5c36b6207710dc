//! Executions that were stopped past their lease.

use bytes::Bytes;
use lock_core::backend::FaultKind;
use lock_core::error::LossReason;
use lock_core::idempotency::Begun;
use lock_core::test_util::records::RecordVerb;
use lock_core::test_util::{Act, Verb};
use tokio::time::sleep;

use crate::{Stage, Test, begin, ms, replay, run, secs};

/// The lock is lost while the handler runs on: the next takes over under a greater token, and
/// what the late one says afterwards is dropped and counted.
#[tokio::test(start_paused = true)]
async fn a_completion_after_another_took_over_is_stale_dropped_and_counted() -> Test {
    let stage = Stage::new();
    let late = run(&stage.once).await;
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    assert_eq!(late.lost().await.reason(), LossReason::Expired);
    let next = run(&stage.other).await;
    assert!(next.token() > late.token());
    assert_eq!(next.replaced(), Some(late.token()));
    let token = late.token();
    let error = late.complete(Bytes::from_static(b"late")).await.unwrap_err();
    assert!(error.is_stale(), "{error}");
    assert!(error.to_string().contains(&token.to_string()), "{error}");
    assert_eq!(stage.once.stats().stale_completions, 1);
    next.complete(Bytes::from_static(b"next")).await?;
    assert_eq!(replay(&stage.once).await, "next");
    stage.lock_script.heal();
    stage.is_clean(1, secs(20)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_outcome_without_payload_or_an_abort_that_comes_too_late_changes_nothing_either() -> Test
{
    for aborts in [false, true] {
        let stage = Stage::new();
        let late = run(&stage.once).await;
        stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
        late.lost().await;
        run(&stage.other).await.complete(Bytes::from_static(b"next")).await?;
        let ended = if aborts { late.abort().await } else { late.complete_without_payload().await };
        assert!(ended.unwrap_err().is_stale());
        assert_eq!(replay(&stage.once).await, "next");
        stage.lock_script.heal();
        stage.is_clean(1, secs(20)).await;
    }
    Ok(())
}

/// Late, and still the only one: nobody has begun since, so nothing speaks against its outcome.
#[tokio::test(start_paused = true)]
async fn a_late_completion_that_nobody_overtook_is_kept() -> Test {
    let stage = Stage::new();
    let late = run(&stage.once).await;
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    late.lost().await;
    sleep(secs(60)).await;
    late.complete(Bytes::from_static(b"late")).await?;
    assert_eq!(replay(&stage.other).await, "late");
    stage.lock_script.heal();
    stage.is_clean(1, secs(20)).await;
    Ok(())
}

/// Stopped between the claim and its answer: the lease is over before the handler has begun, so
/// it does not begin, and the claim is taken back.
#[tokio::test(start_paused = true)]
async fn who_was_stopped_past_its_lease_before_it_began_does_not_begin() -> Test {
    let stage = Stage::new();
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    stage.script.next(RecordVerb::Claim, Act::Slow(ms(1_500)));
    let begun = begin(&stage.once.clone().with_lease(secs(1))).await?;
    assert!(matches!(begun, Begun::InFlight { .. }), "{begun:?}");
    stage.lock_script.heal();
    let next = run(&stage.other).await;
    next.complete(Bytes::from_static(b"next")).await?;
    stage.is_clean(1, secs(5)).await;
    Ok(())
}

/// The duplicates of a stale execution neither wait for its end, which may never come, nor are
/// given its outcome.
#[tokio::test(start_paused = true)]
async fn duplicates_of_a_stale_execution_are_given_the_outcome_of_the_one_that_took_over() -> Test {
    let stage = Stage::new();
    let late = run(&stage.once).await;
    let duplicates = [0; 2].map(|_| crate::spawned(&crate::waiting(&stage.once, secs(60))));
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    late.lost().await;
    stage.lock_script.heal();
    let [first, second] = duplicates;
    let Begun::Run(next) = first.await?? else { panic!("the first in line takes over") };
    assert!(next.token() > late.token());
    assert!(late.complete(Bytes::from_static(b"late")).await.unwrap_err().is_stale());
    next.complete(Bytes::from_static(b"next")).await?;
    assert!(matches!(second.await??, Begun::Replay(payload) if payload == "next"));
    stage.is_clean(1, secs(20)).await;
    Ok(())
}

/// An execution that was cut in the middle frees its lock at once, and stays on record.
#[tokio::test(start_paused = true)]
async fn what_was_left_is_unknown_to_the_next() -> Test {
    let stage = Stage::new();
    let left = run(&stage.once).await;
    let token = left.token();
    left.leave();
    let next = run(&stage.other).await;
    assert_eq!(next.replaced(), Some(token));
    next.complete(Bytes::from_static(b"next")).await?;
    assert_eq!(replay(&stage.once).await, "next");
    assert_eq!(stage.once.stats().aborted, 0);
    stage.is_clean(1, secs(20)).await;
    Ok(())
}
