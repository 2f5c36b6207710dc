//! Executions that are dropped without a word.

use bytes::Bytes;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Begun, OnUnknown};
use lock_core::test_util::records::RecordVerb::{Abort, Claim};
use lock_core::test_util::{Act, Verb};

use tokio::time::sleep;

use crate::{Stage, Test, begin, run, secs, settle};

/// Half done, and nobody to say how far: what may not run twice does not run again.
#[tokio::test(start_paused = true)]
async fn under_refuse_an_execution_that_is_dropped_is_unknown() -> Test {
    let stage = Stage::new();
    let refusing = stage.once.clone().with_on_unknown(OnUnknown::Refuse);
    drop(run(&refusing).await);
    let begun = begin(&stage.other.clone().with_on_unknown(OnUnknown::Refuse)).await?;
    assert!(matches!(begun, Begun::Unknown { .. }), "{begun:?}");
    assert_eq!(stage.script.calls_of(Abort).len(), 0);
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// A panic stops its execution anywhere, too.
#[tokio::test(start_paused = true)]
async fn under_refuse_an_execution_that_panics_is_unknown() -> Test {
    let stage = Stage::new();
    let refusing = stage.once.clone().with_on_unknown(OnUnknown::Refuse);
    let once = refusing.clone();
    let task = tokio::spawn(async move {
        let _execution = run(&once).await;
        panic!("in the handler (expected)");
    });
    assert!(task.await.unwrap_err().is_panic());
    let begun = begin(&refusing).await?;
    assert!(matches!(begun, Begun::Unknown { .. }), "{begun:?}");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// As if it was dropped, and whoever asks again after the answer need not wait for it.
#[tokio::test(start_paused = true)]
async fn an_execution_that_is_given_up_runs_again_and_is_unknown_under_refuse() -> Test {
    let stage = Stage::new();
    run(&stage.once).await.give_up().await?;
    assert!(stage.records.is_empty());
    let refusing = stage.once.clone().with_on_unknown(OnUnknown::Refuse);
    run(&refusing).await.give_up().await?;
    let begun = begin(&refusing).await?;
    assert!(matches!(begun, Begun::Unknown { .. }), "{begun:?}");
    assert_eq!((stage.once.stats().aborted, stage.records.len()), (1, 1));
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_is_given_up_after_its_lock_was_lost_is_unknown() -> Test {
    let stage = Stage::new();
    let late = run(&stage.once).await;
    let token = late.token();
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    late.lost().await;
    late.give_up().await?;
    assert_eq!(stage.script.calls_of(Abort).len(), 0);
    let next = run(&stage.other).await;
    assert_eq!(next.replaced(), Some(token));
    next.complete(Bytes::new()).await?;
    stage.lock_script.heal();
    stage.is_clean(1, secs(20)).await;
    Ok(())
}

/// Nobody was given it, so nothing has run, and it counts as none.
#[tokio::test(start_paused = true)]
async fn under_refuse_a_begin_that_is_dropped_with_its_answer_on_the_way_leaves_nothing() -> Test {
    let stage = Stage::new();
    let refusing = stage.once.clone().with_on_unknown(OnUnknown::Refuse);
    stage.script.next(Claim, Act::Slow(secs(1)));
    let mut beginning = Box::pin(begin(&refusing));
    tokio::select! {
        begun = &mut beginning => panic!("{begun:?}"),
        () = stage.script.called(Claim, 1) => {}
    }
    // The claim is answered, and its answer is not received.
    sleep(secs(2)).await;
    assert!(!stage.records.is_empty());
    drop(beginning);
    settle().await;
    assert!(stage.records.is_empty());
    let stats = stage.once.stats();
    assert_eq!((stats.executed, stats.aborted), (0, 0));
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

/// Whoever has lost its lock leaves the record to who comes next.
#[tokio::test(start_paused = true)]
async fn an_execution_that_lost_its_lock_and_is_dropped_is_unknown() -> Test {
    let stage = Stage::new();
    let late = run(&stage.once).await;
    let token = late.token();
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    late.lost().await;
    drop(late);
    settle().await;
    assert_eq!(stage.script.calls_of(Abort).len(), 0);
    let next = run(&stage.other).await;
    assert_eq!(next.replaced(), Some(token));
    next.complete(Bytes::new()).await?;
    stage.lock_script.heal();
    stage.is_clean(1, secs(20)).await;
    Ok(())
}
