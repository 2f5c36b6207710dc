//! Giving the lock up to a store that does not answer.

use lock_core::backend::FaultKind;
use lock_core::options::Fairness;
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep};

use crate::{Stage, Test, ms, secs, settle};

const FAULT: Act = Act::Err(FaultKind::Transient);

#[tokio::test(start_paused = true)]
async fn a_withdrawal_is_tried_again_until_the_store_has_answered() -> Test {
    for act in [FAULT, Act::Lost] {
        for by_drop in [false, true] {
            let stage = Stage::new();
            (0..4).for_each(|_| stage.script.next(Verb::Withdraw, act));
            let guard = stage.locks.lock("k").lease(secs(60)).await?;
            if by_drop {
                drop(guard)
            } else {
                guard.release().await?
            }
            // By the withdrawal, not by the end of the lease.
            stage.rival.lock("k").wait(secs(3)).await?.release().await?;
            stage.is_clean(secs(3)).await;
            let tries = stage.script.calls_of(Verb::Withdraw).len();
            assert_eq!(tries, 5);
        }
    }
    Ok(())
}

/// Both are sent before either is answered, and another process waits for the first.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_goes_before_the_next_attempt_of_its_process() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Withdraw, Act::Slow(ms(50)));
    let lock = || stage.locks.lock("k").fairness(Fairness::Strict).wait(secs(9));
    let guard = lock().await?;
    let rival = tokio::spawn(stage.rival.lock("k").wait(secs(9)).acquire());
    settle().await;
    let next = tokio::spawn(lock().acquire());
    settle().await;
    let begun = Instant::now();
    let releasing = tokio::spawn(guard.release());
    settle().await;
    let last: Vec<_> = stage.script.calls().iter().rev().take(2).map(|call| call.verb).collect();
    assert_eq!((last, begun.elapsed()), (vec![Verb::Attempt, Verb::Withdraw], ms(0)));
    rival.await??.release().await?;
    releasing.await??;
    next.await??.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_never_left_and_finds_another_holder_is_no_release() -> Test {
    for (act, released) in [(FAULT, false), (Act::Lost, true)] {
        let stage = Stage::new();
        let guard = stage.locks.lock("k").lease(secs(60)).await?;
        stage.script.next(Verb::Withdraw, act);
        stage.script.next(Verb::Withdraw, Act::Slow(ms(1)));
        let releasing = tokio::spawn(guard.release());
        stage.script.called(Verb::Withdraw, 1).await;
        // As after a failover that lost the grant.
        assert_eq!(stage.rival.force_release("k").await?, !released);
        let next = stage.rival.lock("k").try_acquire().await?.ok_or("it is free")?;
        let answer = releasing.await?;
        assert_eq!(answer.is_ok(), released, "{answer:?}");
        assert!(released || answer.unwrap_err().is_not_held());
        next.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_is_answered_within_two_seconds_whatever_the_store_does() -> Test {
    for act in [FAULT, Act::Lost, Act::Never, Act::Stuck, Act::Slow(secs(20))] {
        let stage = Stage::new();
        stage.script.always(Verb::Withdraw, act);
        let guard = stage.locks.lock("k").lease(secs(60)).await?;
        let begun = Instant::now();
        let answer = guard.release().await;
        let took = begun.elapsed();
        assert!(took <= secs(2) + ms(2), "{act:?}: answered after {took:?}");
        match act {
            // Asked again, the store says that the claim is gone: the first try had been served.
            Act::Lost => assert!(answer.unwrap_err().is_unavailable()),
            _ => assert!(answer.unwrap_err().is_unavailable(), "{act:?}"),
        }
        stage.script.heal();
        stage.rival.lock("k").wait(secs(3)).await?.release().await?;
        stage.is_clean(secs(30)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_wait_for_a_renewal_that_hangs() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, Act::Never);
    let guard = stage.locks.lock("k").lease(secs(60)).await?;
    stage.script.called(Verb::Renew, 1).await;
    let begun = Instant::now();
    assert!(guard.release().await.unwrap_err().is_unavailable());
    assert!(begun.elapsed() <= secs(2) + ms(2), "answered after {:?}", begun.elapsed());
    stage.script.heal();
    stage.rival.lock("k").wait(secs(1)).await?.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_background_gives_a_withdrawal_up_at_the_end_of_the_lease() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Withdraw, FAULT);
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    drop(guard);
    let begun = Instant::now();
    sleep(secs(11)).await;
    let tries = stage.script.calls_of(Verb::Withdraw);
    let last = tries[tries.len() - 1].at.duration_since(begun.into_std());
    assert!(last > secs(8) && last <= secs(10), "the last try was after {last:?}");
    assert!((10..30).contains(&tries.len()), "{} tries", tries.len());
    stage.rival.lock("k").await?.release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_store_is_told_at_once_and_not_repeated() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Withdraw, Act::Err(FaultKind::Refused));
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    let begun = Instant::now();
    assert!(guard.release().await.unwrap_err().is_unavailable());
    assert!(begun.elapsed() < ms(2));
    sleep(secs(20)).await;
    assert_eq!(stage.script.calls_of(Verb::Withdraw).len(), 1);
    stage.rival.lock("k").await?.release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_with_a_waiter_in_line_needs_no_store() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").lease(secs(60)).await?;
    let next = tokio::spawn(stage.locks.lock("k").acquire());
    sleep(ms(1)).await;
    for verb in Verb::ALL {
        stage.script.always(verb, Act::Never);
    }
    let begun = Instant::now();
    guard.release().await?;
    let next = next.await??;
    assert!(next.is_held() && begun.elapsed() < ms(2));
    stage.script.heal();
    next.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// Permits of one key are given up beside each other: each has its own bound.
#[tokio::test(start_paused = true)]
async fn two_releases_of_one_key_are_both_answered_within_two_seconds() -> Test {
    for act in [Act::Never, Act::Stuck] {
        let stage = Stage::new();
        stage.script.always(Verb::Withdraw, act);
        let permit = || stage.locks.lock("k").permits(2).lease(secs(60));
        let (first, second) = (permit().await?, permit().await?);
        let begun = Instant::now();
        let first = tokio::spawn(first.release());
        sleep(ms(500)).await;
        let second = tokio::spawn(second.release());
        assert!(first.await?.unwrap_err().is_unavailable());
        assert!(begun.elapsed() <= secs(2) + ms(2), "{act:?}: after {:?}", begun.elapsed());
        assert!(second.await?.unwrap_err().is_unavailable());
        assert!(begun.elapsed() <= ms(2_502), "{act:?}: after {:?}", begun.elapsed());
        stage.script.heal();
        stage.is_clean(secs(60)).await;
    }
    Ok(())
}

/// The withdrawal is polled by whoever releases, and by a conductor that is a task of another
/// runtime, which ends in the middle.
#[test]
fn a_release_goes_on_when_the_runtime_of_another_ends() -> Test {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build()
    };
    let (first, second) = (runtime()?, runtime()?);
    let stage = Stage::new();
    let other = first.block_on(stage.locks.lock("other").acquire())?;
    let guard = second.block_on(stage.locks.lock("k").acquire())?;
    stage.script.always(Verb::Withdraw, Act::Stuck);
    let mut releasing = Box::pin(guard.release());
    second.block_on(async {
        assert!(futures_util::poll!(&mut releasing).is_pending());
    });
    drop(first);
    stage.script.heal();
    let answer = second.block_on(releasing);
    assert!(answer.is_ok(), "{answer:?}");
    second.block_on(async {
        drop(other);
        stage.is_clean(secs(9)).await;
        Ok(())
    })
}
