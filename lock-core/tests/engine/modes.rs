//! Sharing a key: readers of a process under one claim, permits, and a writer that becomes a
//! reader.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::backend::FaultKind;
use lock_core::error::{DowngradeError, LossReason, Rejection};
use lock_core::test_util::{Act, Cut, Verb, cut};
use lock_core::{AcquireError, LockClient, Mode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::cancel::{CUTS, LEASE, SCENES, everywhere, set};
use crate::{Stage, Test, assert_after, ms, secs, settle};

fn requests(stage: &Stage) -> usize {
    stage.script.calls().len()
}

/// The first grant has one token, and the next ones come with a renewal.
#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_wait_is_let_in_beside_readers() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, Act::Slow(ms(300)));
    let _first = stage.locks.lock("k").shared().await?;
    let second = stage.locks.lock("k").shared().try_acquire().await?;
    assert!(second.is_some(), "there are only readers");
    assert!(stage.locks.lock("k").try_acquire().await?.is_none(), "a writer beside readers");
    Ok(())
}

/// Nobody is in the way: "not free" would be untrue.
#[tokio::test(start_paused = true)]
async fn one_who_does_not_wait_is_told_of_a_store_that_is_out_as_those_who_wait_are() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Attempt, Act::Err(FaultKind::Transient));
    let waits = tokio::spawn(stage.locks.lock("k").wait(secs(60)).acquire());
    sleep(secs(1)).await;
    let error = stage.locks.lock("k").try_acquire().await.expect_err("nobody knows");
    assert!(error.is_unavailable(), "{error:?}");
    waits.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_process_enter_together_without_the_store() -> Test {
    let stage = Stage::new();
    let mut readers = vec![stage.locks.lock("k").shared().await?];
    // The first grant of a key has one token, the renewal has as many as are worth it.
    sleep(secs(4)).await;
    let before = requests(&stage);
    for _ in 0..64 {
        readers.push(stage.locks.lock("k").shared().await?);
    }
    let tokens: BTreeSet<_> = readers.iter().map(|guard| guard.token()).collect();
    assert_eq!((tokens.len(), requests(&stage)), (65, before), "each has a token of its own");
    let busy = &stage.locks.busy_keys()[0];
    assert!(busy.guards.len() == 65 && busy.guards.iter().all(|it| it.mode == Mode::Shared));
    let theirs = stage.rival.lock("k").shared().await?;
    let seen = stage.rival.inspect("k").await?;
    assert!(seen.holders.len() == 2 && seen.holders.iter().all(|it| it.mode == Mode::Shared));
    assert!(stage.rival.lock("k").try_acquire().await?.is_none(), "a writer beside readers");
    assert!(stage.locks.lock("k").try_acquire().await?.is_none(), "a writer beside readers");
    drop(theirs);
    for reader in readers {
        reader.release().await?;
    }
    assert_eq!(stage.script.calls_of(Verb::Withdraw).len(), 1, "the last one out");
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_the_readers_before_it_and_those_behind_it_wait_for_the_writer() -> Test
{
    for here in [true, false] {
        let stage = Stage::new();
        let writers = if here { &stage.locks } else { &stage.rival };
        let first = stage.locks.lock("k").shared().await?;
        let writer = tokio::spawn(writers.lock("k").acquire());
        settle().await;
        // Past the slice: readers of the process that has the claim may come in until then.
        sleep(ms(25)).await;
        let late = tokio::spawn(stage.locks.lock("k").shared().acquire());
        settle().await;
        assert!(!late.is_finished() && !writer.is_finished());
        first.release().await?;
        let writer = timeout(ms(50), writer).await???;
        settle().await;
        assert!(!late.is_finished(), "a reader beside a writer");
        writer.release().await?;
        timeout(ms(50), late).await???.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_readers_lets_a_writer_in_within_the_slice_and_their_hold() -> Test {
    let stage = Stage::new();
    for nth in 0..16 {
        let locks = stage.locks.clone();
        tokio::spawn(async move {
            sleep(ms(nth)).await;
            while let Ok(guard) = locks.lock("k").shared().wait(secs(60)).await {
                sleep(ms(10)).await;
                drop(guard);
            }
        });
    }
    sleep(ms(100)).await;
    for client in [&stage.rival, &stage.locks] {
        let before = Instant::now();
        let writer = client.lock("k").await?;
        let waited = before.elapsed();
        assert!(waited <= ms(20 + 10 + 2), "{waited:?}");
        sleep(ms(30)).await;
        drop(writer);
        sleep(ms(100)).await;
    }
    stage.is_clean(secs(2)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_more_hold_permits_than_there_are_and_each_has_a_number_of_its_own() -> Test {
    let stage = Stage::new();
    let (inside, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let slots = Arc::new(std::array::from_fn::<_, 5, _>(|_| AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for nth in 0..40 {
        let locks = if nth % 2 == 0 { stage.locks.clone() } else { stage.rival.clone() };
        let (inside, most, slots) = (inside.clone(), most.clone(), slots.clone());
        tasks.spawn(async move {
            for _ in 0..5 {
                let guard = locks.lock("api").permits(5).wait(secs(60)).await.expect("a permit");
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let slot = &slots[guard.slot() as usize];
                assert_eq!(slot.fetch_add(1, Ordering::SeqCst), 0, "two have one number");
                sleep(ms(3)).await;
                slot.fetch_sub(1, Ordering::SeqCst);
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("held");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    assert_eq!(most.load(Ordering::SeqCst), 5, "all are used, and no more");
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// One request for a permit and one to give it back, and none for those that are handed on here.
#[tokio::test(start_paused = true)]
async fn several_keys_are_had_with_a_permit_of_each() -> Test {
    let stage = Stage::new();
    let both = stage.locks.lock_all(["api", "k"]).permits(2).await?;
    let beside = stage.rival.lock_all(["k", "api"]).permits(2).await?;
    for key in ["api", "k"] {
        assert!(stage.locks.lock(key).permits(2).try_acquire().await?.is_none(), "{key}");
    }
    beside.release().await?;
    assert!(stage.locks.lock("k").permits(2).try_acquire().await?.is_some());
    both.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn permits_are_asked_for_at_once_and_handed_on_without_the_store() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Attempt, Act::Slow(ms(100)));
    let before = Instant::now();
    let mut acquires = JoinSet::new();
    for _ in 0..5 {
        acquires.spawn(stage.locks.lock("api").permits(5).acquire());
    }
    let mut guards = Vec::new();
    while let Some(guard) = acquires.join_next().await {
        guards.push(guard??);
    }
    assert_after(before, Instant::now(), ms(100));
    let verbs: Vec<_> = stage.script.calls().iter().map(|call| call.verb).collect();
    assert_eq!(verbs, [Verb::Attempt; 5]);
    let waiting: Vec<_> =
        (0..5).map(|_| tokio::spawn(stage.locks.lock("api").permits(5).acquire())).collect();
    settle().await;
    guards.into_iter().for_each(drop);
    for waiter in waiting {
        timeout(ms(1), waiter).await???.release().await?;
    }
    let sent = |verb| stage.script.calls_of(verb).len();
    assert_eq!((sent(Verb::Attempt), sent(Verb::Withdraw)), (5, 5), "there is no sixth");
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_takes_a_permit_that_is_free_and_no_other() -> Test {
    for same in [true, false] {
        let stage = Stage::new();
        let others = if same { &stage.locks } else { &stage.rival };
        let one = others.lock("api").permits(2).await?;
        let two = stage.locks.lock("api").permits(2).try_acquire().await?.expect("a free one");
        assert_ne!(one.slot(), two.slot());
        assert!(stage.locks.lock("api").permits(2).try_acquire().await?.is_none());
        one.release().await?;
        let again = stage.locks.lock("api").permits(2).try_acquire().await?.expect("a free one");
        again.release().await?;
        two.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_limit_is_refused_by_name_until_the_key_is_free() -> Test {
    for same in [true, false] {
        let stage = Stage::new();
        let others = if same { &stage.locks } else { &stage.rival };
        let held = others.lock("api").permits(5).await?;
        let refused = timeout(ms(1), stage.locks.lock("api").permits(3).retries(3).acquire());
        match refused.await? {
            Err(AcquireError::Rejected(Rejection::OtherLimit { key, given: 3, in_use: 5 })) => {
                assert_eq!(key.as_str(), "api");
            }
            other => panic!("{other:?}"),
        }
        let beside = stage.locks.lock("api").permits(5).await?;
        drop((held, beside));
        settle().await;
        stage.locks.lock("api").permits(3).await?.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_permit_whose_hold_limit_is_over_is_handed_on_and_the_others_stay() -> Test {
    let stage = Stage::new();
    let stays = stage.locks.lock("api").permits(2).await?;
    let limited = stage.locks.lock("api").permits(2).hold_limit(ms(50)).await?;
    let before = Instant::now();
    let next = stage.locks.lock("api").permits(2).await?;
    assert_after(before, Instant::now(), ms(50));
    assert_eq!(limited.lost().await.reason(), LossReason::HoldLimit);
    assert_eq!(limited.slot(), next.slot(), "told after the loss as well");
    assert!(stays.is_held() && next.is_held());
    drop((stays, limited, next));
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn permits_are_lost_one_by_one_at_the_end_of_their_leases() -> Test {
    let stage = Stage::new();
    let one = stage.locks.lock("api").permits(2).lease(secs(3)).await?;
    sleep(ms(500)).await;
    let two = stage.locks.lock("api").permits(2).lease(secs(3)).await?;
    stage.script.always(Verb::Renew, Act::Never);
    let before = Instant::now();
    one.lost().await;
    let left = two.lease_left();
    assert!(left > ms(400) && two.is_held(), "{left:?}");
    two.lost().await;
    assert!(before.elapsed() <= secs(3));
    drop((one, two));
    stage.script.heal();
    stage.is_clean(secs(9)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn cancelled_acquires_of_permits_and_readers_leave_nothing() -> Test {
    everywhere(&SCENES, |stage| {
        stage.locks.lock("k").permits(3).lease(LEASE).wait(secs(4)).acquire()
    })
    .await?;
    everywhere(&SCENES, |stage| stage.locks.lock("k").shared().lease(LEASE).wait(secs(4)).acquire())
        .await
}

/// Several at once, each cut elsewhere.
#[tokio::test(start_paused = true)]
async fn permits_that_are_cancelled_beside_each_other_leave_nothing() -> Test {
    for (nth, first) in CUTS.into_iter().enumerate() {
        for second in CUTS {
            let stage = Stage::new();
            let act = [Act::Ok, Act::Lost, Act::Slow(ms(700))][nth % 3];
            set(&stage, [act, Act::Ok, act]);
            let acquire = || stage.locks.lock("k").permits(2).lease(LEASE).wait(secs(4)).acquire();
            let held = stage.rival.lock("k").permits(2).await?;
            let (one, two) = tokio::join!(cut(first, acquire()), cut(second, acquire()));
            drop((one, two, held));
            stage.script.heal();
            let free = stage.rival.lock("k").wait(ms(2_500)).await;
            free.unwrap_or_else(|error| panic!("{first:?} {second:?}: {error}")).release().await?;
            stage.is_clean(secs(3)).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_for_more_under_its_hold_is_refused_and_says_why() -> Test {
    let stage = Stage::new();
    let (locks, reader) = (&stage.locks, stage.locks.lock("k").shared().await?);
    let write = reader.scope(locks.lock("k").acquire());
    match timeout(ms(1), write).await? {
        Err(AcquireError::Rejected(error @ Rejection::Upgrade { .. })) => {
            let text = error.to_string();
            assert!(text.contains("`k`") && text.contains("exclusive under a hold that is shared"));
        }
        other => panic!("{other:?}"),
    }
    let again = reader.scope(locks.lock("k").shared().acquire()).await?;
    assert_eq!(again.token(), reader.token());
    drop((again, reader));
    let writer = locks.lock("k").await?;
    let read = writer.scope(locks.lock("k").shared().acquire()).await?;
    assert_eq!(read.token(), writer.token(), "who may write may read");
    drop((read, writer));
    let permit = locks.lock("k").permits(1).await?;
    let same = permit.scope(locks.lock("k").permits(1).acquire()).await?;
    assert_eq!(same.token(), permit.token(), "it does not wait for itself");
    drop(same);
    let other = permit.scope(locks.lock("k").permits(2).acquire()).await;
    let refused = matches!(other, Err(AcquireError::Rejected(Rejection::OtherLimit { .. })));
    assert!(refused, "{other:?}");
    drop(permit);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_writer_becomes_a_reader_and_lets_readers_in_and_no_writer() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    let reads = |client: &lock_core::LockClient| {
        tokio::spawn(client.lock("k").shared().wait(secs(60)).acquire())
    };
    let (here, there) = (reads(&stage.locks), reads(&stage.rival));
    settle().await;
    let writer = tokio::spawn(stage.rival.lock("k").wait(secs(60)).acquire());
    settle().await;
    let token = guard.token();
    guard.downgrade().await?;
    guard.downgrade().await?;
    assert!(guard.is_held() && guard.token() == token);
    let there = timeout(ms(50), there).await???;
    let here = timeout(ms(50), here).await???;
    sleep(ms(500)).await;
    assert!(!writer.is_finished(), "a writer beside readers");
    let upgrade = guard.scope(stage.locks.lock("k").acquire()).await;
    assert!(matches!(upgrade, Err(AcquireError::Rejected(Rejection::Upgrade { .. }))));
    drop((guard, there, here));
    timeout(ms(50), writer).await???.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// From its first poll on it counts as a reader, whatever the store says.
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_not_answered_is_asked_for_again() -> Test {
    for act in [Act::Err(FaultKind::Transient), Act::Lost, Act::Slow(ms(300))] {
        let stage = Stage::new();
        let guard = stage.locks.lock("k").lease(LEASE).await?;
        let reader = tokio::spawn(stage.rival.lock("k").shared().wait(secs(60)).acquire());
        settle().await;
        stage.script.next(Verb::Downgrade, act);
        drop(cut(Cut::Turns(1), guard.downgrade()).await);
        let upgrade = guard.scope(stage.locks.lock("k").acquire()).await;
        assert!(matches!(upgrade, Err(AcquireError::Rejected(Rejection::Upgrade { .. }))));
        guard.downgrade().await?;
        timeout(ms(1), reader).await???.release().await?;
        assert!(guard.is_held());
        guard.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

/// The store may let readers in at any time: a writer of this process takes the key anew.
#[tokio::test(start_paused = true)]
async fn a_claim_that_may_be_shared_by_now_is_handed_on_to_no_writer() -> Test {
    for limit in [None, Some(secs(5))] {
        let stage = Stage::new();
        let locks = stage.locks.lock("k").lease(LEASE);
        let guard = match limit {
            Some(limit) => locks.hold_limit(limit).await?,
            None => locks.await?,
        };
        // Its renewal brings the tokens for a hand-off.
        sleep(ms(4_900)).await;
        let writer = stage.locks.lock("k").lease(LEASE).wait(secs(60));
        let writer = tokio::spawn(writer.acquire());
        settle().await;
        stage.script.next(Verb::Downgrade, Act::Slow(ms(300)));
        drop(cut(Cut::Turns(1), guard.downgrade()).await);
        let reader = stage.rival.lock("k").shared().wait(ms(50)).await;
        match limit {
            Some(_) => sleep(ms(110)).await,
            None => drop(guard),
        }
        settle().await;
        let is_granted = writer.is_finished();
        assert!(!(reader.is_ok() && is_granted), "a writer beside a reader");
        drop(reader);
        let writer = timeout(secs(1), writer).await???;
        assert!(stage.rival.lock("k").shared().try_acquire().await?.is_none());
        drop(writer);
        stage.is_clean(secs(9)).await;
    }
    Ok(())
}

/// It has waited for its turn, and found another hold than it had asked for.
#[tokio::test(start_paused = true)]
async fn who_waits_to_re_enter_a_writer_is_refused_by_the_reader_it_became() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    let first = guard.scope(stage.locks.lock("k").acquire()).await?;
    let second = tokio::spawn(guard.scope(stage.locks.lock("k").acquire()));
    settle().await;
    drop(first);
    // Before the second one comes to run.
    drop(cut(Cut::Turns(0), guard.downgrade()).await);
    let refused = second.await?;
    let is_upgrade = matches!(refused, Err(AcquireError::Rejected(Rejection::Upgrade { .. })));
    assert!(is_upgrade, "{refused:?}");
    drop(guard);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_that_gives_up_is_let_in_at_once() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").shared().await?;
    let writer = tokio::spawn(stage.locks.lock("k").wait(secs(60)).acquire());
    settle().await;
    let reader = tokio::spawn(stage.locks.lock("k").shared().wait(secs(60)).acquire());
    settle().await;
    assert!(!reader.is_finished());
    writer.abort();
    timeout(ms(1), reader).await???.release().await?;
    drop(guard);
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// The store tells nobody that its line is empty: who waits for that alone asks, and not too often.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_of_another_process_that_gives_up_is_let_in_soon() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").shared().lease(secs(60)).await?;
    let writer = tokio::spawn(stage.rival.lock("k").wait(secs(60)).acquire());
    settle().await;
    // Past the slice, and past the last renewal.
    sleep(secs(2)).await;
    let renewals = || stage.script.calls_of(Verb::Renew).len();
    let before = renewals();
    let reader = tokio::spawn(stage.locks.lock("k").shared().wait(secs(60)).acquire());
    sleep(ms(3_100)).await;
    assert!(!reader.is_finished() && (5..=7).contains(&(renewals() - before)));
    writer.abort();
    timeout(ms(500), reader).await???.release().await?;
    let before = renewals();
    sleep(secs(5)).await;
    assert_eq!(renewals(), before, "nobody waits");
    drop(guard);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_no_time_out_where_a_permit_is_held_here() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("api").permits(5).await?;
    sleep(ms(1)).await;
    stage.script.always(Verb::Attempt, Act::Never);
    let tried = stage.locks.lock("api").permits(5).try_acquire().await;
    assert!(matches!(tried, Err(AcquireError::Unavailable(_))), "{tried:?}");
    stage.script.heal();
    drop(guard);
    stage.is_clean(secs(3)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_beside_a_permit_of_a_later_lane_is_answered_at_once() -> Test {
    let stage = Stage::new();
    let first = stage.locks.lock("k").permits(2).await?;
    let second = stage.locks.lock("k").permits(2).await?;
    first.release().await?;
    assert!(timeout(ms(1), stage.locks.lock("k").try_acquire()).await??.is_none());
    drop(second);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_over_a_silent_store_ends_with_the_hold() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").lease(LEASE).await?;
    stage.script.always(Verb::Downgrade, Act::Never);
    stage.script.always(Verb::Renew, Act::Never);
    let before = Instant::now();
    match guard.downgrade().await {
        Err(DowngradeError::Lost(lost)) => assert_eq!(lost.reason(), LossReason::Expired),
        other => panic!("{other:?}"),
    }
    assert!(before.elapsed() <= LEASE);
    assert!(matches!(guard.downgrade().await, Err(DowngradeError::Lost(_))));
    drop(guard);
    stage.script.heal();
    stage.is_clean(secs(9)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_downgraded_says_so_and_goes_on() -> Test {
    let stage = Stage::new();
    let permit = stage.locks.lock("api").permits(2).await?;
    assert!(matches!(permit.downgrade().await, Err(DowngradeError::Permit { .. })));
    let outer = stage.locks.lock("k").await?;
    let inner = outer.scope(stage.locks.lock("k").acquire()).await?;
    assert!(matches!(outer.downgrade().await, Err(DowngradeError::Reentered { .. })));
    assert!(matches!(inner.downgrade().await, Err(DowngradeError::Reentered { .. })));
    drop(inner);
    outer.downgrade().await?;
    assert!(permit.is_held() && stage.script.calls_of(Verb::Downgrade).len() == 1);
    drop((permit, outer));
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_downgrade_leaves_nothing() -> Test {
    for act in [Act::Ok, Act::Err(FaultKind::Transient), Act::Lost, Act::Slow(ms(700)), Act::Never]
    {
        for at in CUTS {
            let stage = Stage::new();
            let guard = stage.locks.lock("k").lease(LEASE).await?;
            stage.script.always(Verb::Downgrade, act);
            drop(cut(at, guard.downgrade()).await);
            drop(guard);
            stage.script.heal();
            let free = stage.rival.lock("k").wait(ms(2_500)).await;
            free.unwrap_or_else(|error| panic!("{act:?} {at:?}: {error}")).release().await?;
            stage.is_clean(secs(3)).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_all_who_share_a_key() -> Test {
    let stage = Stage::new();
    let readers = [stage.locks.lock("k").shared().await?, stage.locks.lock("k").shared().await?];
    let permits =
        [stage.locks.lock("api").permits(2).await?, stage.locks.lock("api").permits(2).await?];
    assert_eq!(stage.locks.stats().held, 4);
    let report = stage.locks.shutdown(ms(10)).await;
    assert_eq!(report.abandoned, 4, "{report:?}");
    for guard in readers.iter().chain(&permits) {
        assert_eq!(guard.lost().await.reason(), LossReason::Shutdown);
    }
    drop((readers, permits));
    settle().await;
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// A claim that was opened for a shorter lease is given back where the head of the line wants a
/// longer one. Were another of its kind opened in its place, the two would make way for each other
/// without an end, and all of it in one poll.
#[test]
fn a_permit_with_a_longer_lease_is_had_behind_claims_of_those_who_left() {
    let (ends, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(permits_of_two_leases()).expect("no fault");
        ends.send(()).expect("it is waited for");
    });
    // It takes milliseconds, or for ever.
    ended.recv_timeout(secs(60)).expect("the waits end");
}

async fn permits_of_two_leases() -> Test {
    let stage = Stage::new();
    let permit = |locks: &LockClient, lease| locks.lock("k").permits(3).lease(lease).acquire();
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(permit(&stage.rival, secs(9)).await?);
    }
    let waits = |lease| tokio::spawn(permit(&stage.locks, lease));
    // Two claims of a second each, one of which asks for the one who wants two.
    let first = waits(secs(1));
    settle().await;
    let second = waits(secs(1));
    settle().await;
    first.abort();
    settle().await;
    let longer = waits(secs(2));
    settle().await;
    second.abort();
    settle().await;
    let shorter = waits(secs(1));
    settle().await;
    for waiting in [longer, shorter] {
        others.pop().expect("there are three").release().await?;
        waiting.await??.release().await?;
    }
    drop(others);
    stage.is_clean(secs(1)).await;
    Ok(())
}
