//! The outcomes that a request is told, with nothing in the way.

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{
    Begun, Fingerprint, Found, Idempotency, MemoryRecords, OnUnknown, RecordStore, Scope,
};
use tokio::time::{Instant, sleep};

use crate::{ASKED, Stage, Test, assert_after, begin, process, rejecting, replay, run, secs};

#[tokio::test(start_paused = true)]
async fn the_first_runs_and_all_later_are_given_its_payload_without_a_lock() -> Test {
    let stage = Stage::new();
    let execution = run(&stage.once).await;
    execution.complete(Bytes::from_static(b"paid")).await?;
    let held = (stage.once.locks().stats().acquired, stage.other.locks().stats().acquired);
    for once in [&stage.once, &stage.other, &rejecting(&stage.other)] {
        assert_eq!(replay(once).await, "paid");
    }
    assert_eq!(held, (1, 0));
    assert_eq!(stage.other.locks().stats().acquired, 0);
    let (once, other) = (stage.once.stats(), stage.other.stats());
    assert_eq!((once.executed, once.completed, once.replayed), (1, 1, 1));
    assert_eq!((other.executed, other.replayed), (0, 2));
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_outcome_without_payload_lets_nothing_run_and_has_nothing_to_replay() -> Test {
    let stage = Stage::new();
    run(&stage.once).await.complete_without_payload().await?;
    for once in [&stage.once, &stage.other] {
        assert!(matches!(begin(once).await?, Begun::WithoutPayload));
        assert_eq!(once.stats().without_payload, 1);
    }
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_abort_leaves_no_trace_and_a_retry_runs() -> Test {
    let stage = Stage::new();
    run(&stage.once).await.abort().await?;
    assert!(stage.records.is_empty());
    let again = run(&stage.other).await;
    assert_eq!(again.replaced(), None);
    again.abort().await?;
    assert_eq!(stage.once.stats().aborted, 1);
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_aborts_and_a_retry_runs() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone();
    let task = tokio::spawn(async move {
        let _execution = run(&once).await;
        panic!("in the handler (expected)");
    });
    assert!(task.await.unwrap_err().is_panic());
    run(&stage.other).await.complete(Bytes::new()).await?;
    assert_eq!(stage.once.stats().aborted, 1);
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_same_key_is_a_mismatch_and_the_first_stays_replayable() -> Test {
    let stage = Stage::new();
    let asked_otherwise = Fingerprint::new([2; 32]);
    let execution = run(&stage.once).await;
    let since = Instant::now();
    for once in [&stage.once, &stage.other] {
        let begun = once.begin(&Scope::of("tenant"), b"key", asked_otherwise).await?;
        assert!(matches!(begun, Begun::Mismatch), "while it runs: {begun:?}");
    }
    assert_after(since, secs(0));
    execution.complete(Bytes::from_static(b"paid")).await?;
    for once in [&stage.once, &stage.other] {
        let begun = once.begin(&Scope::of("tenant"), b"key", asked_otherwise).await?;
        assert!(matches!(begun, Begun::Mismatch), "afterwards: {begun:?}");
        assert_eq!(replay(once).await, "paid");
        assert_eq!(once.stats().mismatches, 2);
    }
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_scope_key_or_secret_is_another_record() -> Test {
    let stage = Stage::new();
    run(&stage.once).await.complete(Bytes::from_static(b"paid")).await?;
    let keyed = stage.once.clone().with_secret("another secret of the service");
    let same = Scope::of("tenant");
    let others: [(&Idempotency, _, &[u8]); 4] = [
        (&stage.once, Scope::of("tenant-2"), b"key"),
        (&stage.once, Scope::Global, b"key"),
        (&stage.once, same.clone(), b"key-2"),
        (&keyed, same, b"key"),
    ];
    for (once, scope, key) in others {
        match once.begin(&scope, key, ASKED).await? {
            Begun::Run(execution) => execution.abort().await?,
            other => panic!("{scope:?}: {other:?}"),
        }
    }
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// Nobody is given the answer of another stage, with no more said than that it is another.
#[tokio::test(start_paused = true)]
async fn two_services_on_one_store_share_no_record() -> Test {
    let stage = Stage::new();
    let staging = LockClient::with_backend(stage.lock_store.clone());
    let staging = Idempotency::new("tests-staging", staging, stage.records.clone());
    let held = run(&stage.once).await;
    run(&staging).await.complete(Bytes::from_static(b"of the stage")).await?;
    held.complete(Bytes::from_static(b"paid")).await?;
    assert_eq!(
        (replay(&stage.once).await, replay(&staging).await),
        ("paid".into(), "of the stage".into())
    );
    drop(staging);
    stage.is_clean(2, secs(1)).await;
    Ok(())
}

/// Whoever reads the store cannot test guesses at what was asked.
#[tokio::test(start_paused = true)]
async fn a_fingerprint_is_not_stored_as_the_caller_made_it() -> Test {
    let stage = Stage::new();
    let execution = run(&stage.once).await;
    let bare = stage.records.peek(execution.id(), ASKED).await?;
    assert_eq!(bare, Found::Mismatch);
    execution.complete(Bytes::from_static(b"paid")).await?;
    assert_eq!(replay(&stage.other).await, "paid", "the engine knows it");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_kept_for_its_life_and_then_the_key_runs_again() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone().with_record_ttl(secs(60));
    run(&once).await.complete(Bytes::from_static(b"first")).await?;
    sleep(secs(59)).await;
    assert_eq!(replay(&once).await, "first");
    sleep(secs(1)).await;
    run(&once).await.complete(Bytes::from_static(b"second")).await?;
    assert_eq!(replay(&stage.other).await, "second");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lock_and_record_live_as_long_as_the_execution() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone().with_in_flight_ttl(secs(10)).with_lease(secs(3));
    let execution = run(&once).await;
    let refusing = rejecting(&stage.other).with_on_unknown(OnUnknown::Refuse);
    for minute in 1..=5_u64 {
        sleep(secs(60)).await;
        assert!(execution.handle().is_held());
        let begun = begin(&refusing).await?;
        let Begun::InFlight { age } = begun else { panic!("minute {minute}: {begun:?}") };
        assert_eq!(age, secs(60 * minute));
    }
    execution.complete(Bytes::from_static(b"at last")).await?;
    assert_eq!(replay(&stage.other).await, "at last");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_died_is_run_again_under_a_greater_token_or_refused() -> Test {
    let stage = Stage::new();
    let (locks, records) = (stage.lock_store.clone(), stage.records.clone());
    // The process dies: its runtime ends, and its lock with the lease.
    let (token, execution) = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let execution = runtime.block_on(async { run(&process(&locks, records)).await });
        (execution.token(), execution)
    })
    .join()
    .expect("no panic");
    sleep(secs(20)).await;
    let refused = begin(&stage.other.clone().with_on_unknown(OnUnknown::Refuse)).await?;
    assert!(matches!(refused, Begun::Unknown { .. }), "{refused:?}");
    let again = run(&stage.other).await;
    assert_eq!(again.replaced(), Some(token));
    assert!(again.token() > token);
    assert_eq!(stage.other.stats().unknown, 2);
    // Whoever is left over is told so.
    assert!(execution.complete(Bytes::from_static(b"late")).await.unwrap_err().is_unavailable());
    again.complete(Bytes::from_static(b"again")).await?;
    assert_eq!(replay(&stage.once).await, "again");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_that_runs_does_not_run_inside_of_itself() -> Test {
    let locks = lock_core::LockClient::memory();
    let records = MemoryRecords::new();
    let once = rejecting(&Idempotency::new("tests", locks.clone(), records.clone()));
    // Another engine over the same lock client, which knows nothing of the first one's line.
    let again = rejecting(&Idempotency::new("tests", locks.clone(), records));
    let execution = run(&once).await;
    for once in [&once, &again] {
        let begun = begin(once).await?;
        assert!(matches!(begun, Begun::InFlight { .. }), "{begun:?}");
    }
    execution.abort().await?;
    Ok(())
}
