//! Requests that come while another one runs.

use std::pin::pin;

use bytes::Bytes;
use lock_core::error::ConnectError;
use lock_core::idempotency::{Begun, Duplicates, Fingerprint, Idempotency, MemoryRecords, Scope};
use lock_core::memory::Memory;
use lock_core::test_util::records::RecordVerb;
use lock_core::test_util::{Act, Verb};
use lock_core::{LockClient, LockOptions};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::{
    Stage, Test, assert_after, begin, ms, process, rejecting, replay, run, secs, settle, spawned,
    waiting,
};

#[tokio::test(start_paused = true)]
async fn a_hundred_duplicates_of_one_process_share_one_place_and_one_answer() -> Test {
    let stage = Stage::new();
    let requests: Vec<_> = (0..100).map(|_| spawned(&stage.once)).collect();
    settle().await;
    assert_eq!(stage.once.stats().executed, 1);
    let mut replays = 0;
    for request in requests {
        match request.await?? {
            Begun::Run(execution) => execution.complete(Bytes::from_static(b"paid")).await?,
            Begun::Replay(payload) => {
                assert_eq!(payload, "paid");
                replays += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(replays, 99);
    for (verb, times) in [(RecordVerb::Peek, 1), (RecordVerb::Claim, 1), (RecordVerb::Complete, 1)]
    {
        assert_eq!(stage.script.calls_of(verb).len(), times, "{verb:?}");
    }
    assert_eq!(stage.once.locks().stats().acquired, 1);
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_duplicates_in_four_processes_one_runs_and_all_are_given_its_answer() -> Test {
    let stage = Stage::new();
    let processes: Vec<_> =
        (0..4).map(|_| process(&stage.lock_store, stage.records.clone())).collect();
    let mut requests = JoinSet::new();
    for number in 0..100 {
        let once = processes[number % 4].clone();
        requests.spawn(async move {
            match begin(&once).await.expect("an answer") {
                Begun::Run(execution) => {
                    sleep(secs(1)).await;
                    let payload = Bytes::from(format!("ran under {}", execution.token()));
                    execution.complete(payload.clone()).await.expect("in time");
                    payload
                }
                Begun::Replay(payload) => payload,
                other => panic!("{other:?}"),
            }
        });
    }
    let since = Instant::now();
    let payloads = requests.join_all().await;
    assert_after(since, secs(1));
    assert!(payloads.iter().all(|payload| payload == &payloads[0]), "{payloads:?}");
    let executed: u64 = processes.iter().map(|once| once.stats().executed).sum();
    assert_eq!(executed, 1);
    drop(processes);
    settle().await;
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// The completion wakes them: nobody asks the store in the meantime, and they are answered at
/// the very moment.
#[tokio::test(start_paused = true)]
async fn duplicates_are_woken_by_the_completion_and_do_not_poll() -> Test {
    let stage = Stage::new();
    let running = run(&stage.other).await;
    let here: Vec<_> = (0..10).map(|_| spawned(&stage.once)).collect();
    sleep(ms(7_500)).await;
    assert_eq!(stage.script.calls_of(RecordVerb::Peek).len(), 1);
    assert_eq!(stage.script.calls_of(RecordVerb::Claim).len(), 0);
    assert!(stage.lock_script.calls_of(Verb::Attempt).len() <= 3, "rechecks at lease ends only");
    let since = Instant::now();
    running.complete(Bytes::from_static(b"paid")).await?;
    for request in here {
        assert!(matches!(request.await??, Begun::Replay(payload) if payload == "paid"));
    }
    assert_after(since, secs(0));
    assert_eq!(stage.script.calls_of(RecordVerb::Claim).len(), 1, "one for all of them");
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_at_once_how_long_it_runs_already() -> Test {
    let stage = Stage::new();
    let running = run(&stage.once).await;
    sleep(secs(3)).await;
    for once in [&stage.once, &stage.other] {
        for rejecting in [rejecting(once), waiting(once, secs(0))] {
            let since = Instant::now();
            let begun = begin(&rejecting).await?;
            assert!(matches!(begun, Begun::InFlight { age } if age == secs(3)), "{begun:?}");
            assert_after(since, secs(0));
        }
        assert_eq!(once.stats().in_flight, 2);
    }
    running.abort().await?;
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_so_when_the_wait_is_over() -> Test {
    let stage = Stage::new();
    let running = run(&stage.once).await;
    sleep(secs(1)).await;
    for once in [&stage.once, &stage.other] {
        let since = Instant::now();
        let begun = begin(&waiting(once, secs(2))).await?;
        let Begun::InFlight { age } = begun else { panic!("{begun:?}") };
        assert!(age >= secs(3), "{age:?}");
        assert_after(since, secs(2));
    }
    running.abort().await?;
    stage.is_clean(0, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_still_hears_of_an_outcome_that_is_just_looked_up() -> Test {
    let stage = Stage::new();
    run(&stage.other).await.complete(Bytes::from_static(b"paid")).await?;
    stage.script.next(RecordVerb::Peek, Act::Slow(ms(300)));
    let first = spawned(&stage.once);
    settle().await;
    let begun = begin(&rejecting(&stage.once)).await?;
    assert!(matches!(begun, Begun::Replay(payload) if payload == "paid"));
    assert!(matches!(first.await??, Begun::Replay(_)));
    assert_eq!(stage.script.calls_of(RecordVerb::Peek).len(), 1);
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_an_abort_the_duplicates_run_one_after_the_other_in_their_order() -> Test {
    let stage = Stage::new();
    let running = run(&stage.once).await;
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut requests = JoinSet::new();
    for number in 0..5 {
        let (once, order) = (stage.once.clone(), order.clone());
        requests.spawn(async move {
            match begin(&once).await.expect("an answer") {
                Begun::Run(execution) if number < 3 => {
                    order.lock().expect("no panic").push(number);
                    execution.abort().await.expect("in time");
                }
                Begun::Run(execution) => {
                    order.lock().expect("no panic").push(number);
                    execution.complete(Bytes::from_static(b"paid")).await.expect("in time");
                }
                Begun::Replay(payload) => assert_eq!(payload, "paid"),
                other => panic!("{other:?}"),
            }
        });
        settle().await;
    }
    drop(running);
    requests.join_all().await;
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3]);
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_with_another_payload_does_not_wait_for_the_outcome() -> Test {
    let stage = Stage::new();
    // Both look before either has claimed.
    stage.script.next(RecordVerb::Peek, Act::Slow(ms(10)));
    stage.script.next(RecordVerb::Peek, Act::Slow(ms(10)));
    let first = spawned(&stage.once);
    settle().await;
    let once = stage.once.clone();
    let second = tokio::spawn(async move {
        once.begin(&Scope::of("tenant"), b"key", Fingerprint::new([2; 32])).await
    });
    let Begun::Run(execution) = first.await?? else { panic!("the first runs") };
    sleep(secs(1)).await;
    execution.complete(Bytes::from_static(b"paid")).await?;
    assert!(matches!(second.await??, Begun::Mismatch));
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// The holder has written its outcome and died before it could release.
#[tokio::test(start_paused = true)]
async fn an_outcome_behind_a_lock_that_is_not_given_back_is_found_when_the_wait_is_over() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone().with_lease(secs(60));
    let execution = run(&once).await;
    stage.lock_script.always(Verb::Withdraw, Act::Stuck);
    let other = waiting(&stage.other, secs(3));
    let waiting = spawned(&other);
    sleep(secs(1)).await;
    execution.complete(Bytes::from_static(b"paid")).await?;
    let since = Instant::now();
    assert!(matches!(waiting.await??, Begun::Replay(payload) if payload == "paid"));
    assert_after(since, secs(2));
    stage.lock_script.heal();
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_more_than_ten_thousand_wait_for_one_key_in_one_process() -> Test {
    let stage = Stage::new();
    let running = run(&stage.once).await;
    let waiting: Vec<_> = (1..10_000).map(|_| spawned(&stage.once)).collect();
    // The runtime takes turns; each of them must have had one.
    for _ in 0..1_000 {
        settle().await;
    }
    let since = Instant::now();
    assert!(matches!(begin(&stage.once).await?, Begun::InFlight { .. }));
    assert_after(since, secs(0));
    running.complete(Bytes::from_static(b"paid")).await?;
    for request in waiting {
        assert!(matches!(request.await??, Begun::Replay(_)));
    }
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_one_service_may_choose_otherwise() -> Test {
    let stage = Stage::new();
    let running = run(&stage.once).await;
    let patient = spawned(&stage.once.clone().with_duplicates(Duplicates::Wait(secs(30))));
    settle().await;
    assert!(matches!(begin(&rejecting(&stage.once)).await?, Begun::InFlight { .. }));
    sleep(secs(20)).await;
    running.complete(Bytes::from_static(b"paid")).await?;
    assert!(matches!(patient.await??, Begun::Replay(_)));
    stage.is_clean(1, secs(1)).await;
    Ok(())
}

/// The mode that the application has by default, or by options of its own, says nothing of
/// executions: the second process does not run beside the first.
#[tokio::test(start_paused = true)]
async fn an_execution_is_alone_whatever_mode_the_client_has() -> Test {
    let modes = [LockOptions::new().shared(), LockOptions::new().permits(5)];
    for (mode, is_default) in modes.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let (locks, records) = (Memory::new(), MemoryRecords::new());
        let process = || {
            let builder = LockClient::builder_with(locks.clone());
            let builder = if is_default { builder.defaults(mode) } else { builder };
            let (records, mode) = (records.clone(), mode.with_lease(secs(30)));
            async move {
                let once = Idempotency::new("tests", builder.connect().await?, records);
                Ok::<_, ConnectError>(if is_default { once } else { once.with_lock_options(mode) })
            }
        };
        let (one, other) = (process().await?, process().await?);
        let execution = run(&one).await;
        let second = begin(&rejecting(&other)).await?;
        assert!(matches!(second, Begun::InFlight { .. }), "{mode:?}: {second:?}");
        execution.complete(Bytes::from_static(b"done")).await?;
        assert_eq!(replay(&other).await, "done");
    }
    Ok(())
}

/// As one whose runtime computes.
#[tokio::test(start_paused = true)]
async fn a_duplicate_that_does_not_wait_has_its_answer_in_time_though_its_leader_stands_still()
-> Test {
    let stage = Stage::new();
    stage.script.next(RecordVerb::Peek, Act::Never);
    let mut leader = pin!(begin(&stage.once));
    assert!(futures_util::poll!(leader.as_mut()).is_pending());
    let since = Instant::now();
    let begun = begin(&rejecting(&stage.once)).await?;
    assert!(matches!(begun, Begun::InFlight { .. }), "{begun:?}");
    assert_after(since, secs(2));
    Ok(())
}
