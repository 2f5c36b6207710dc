//! Terms are had as they were asked for: the lease and the replicas of a claim that others use
//! after the one that opened it.

use std::future::pending;

use lock_core::backend::{Backend, Capabilities, ClaimId, Fault, Terms};
use lock_core::error::{NotReplicatedError, RunError};
use lock_core::memory::Memory;
use lock_core::test_util::{Act, Script, Scripted, Verb};
use lock_core::view::Inspection;
use lock_core::{AcquireError, Key, LockClient};
use tokio::time::{Duration, Instant, sleep};

use crate::{Stage, Test, assert_after, ms, secs, settle};

fn leases(script: &Script) -> Vec<Duration> {
    script.claims().iter().map(|(_, terms)| terms.lease).collect()
}

#[tokio::test(start_paused = true)]
async fn one_that_waited_behind_a_short_lease_outlives_that_while_the_store_is_away() -> Test {
    for by_drop in [false, true] {
        let stage = Stage::new();
        let opener = stage.locks.lock("k").lease(ms(200)).await?;
        let waiting = tokio::spawn(stage.locks.lock("k").lease(secs(10)).acquire());
        settle().await;
        if by_drop {
            drop(opener);
        } else {
            opener.release().await?;
        }
        let guard = waiting.await??;
        assert!(guard.lease_left() > secs(9), "{:?}", guard.lease_left());
        // For fifty of the leases that the opener asked for.
        stage.script.always(Verb::Renew, Act::Never);
        sleep(secs(9)).await;
        assert!(guard.is_held());
        assert_eq!(leases(&stage.script), [ms(200), secs(10)]);
        stage.script.heal();
        settle().await;
        guard.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_less_goes_on_with_the_claim_that_is_there() -> Test {
    let stage = Stage::new();
    let opener = stage.locks.lock("k").lease(secs(10)).await?;
    let waiting = tokio::spawn(stage.locks.lock("k").lease(ms(200)).acquire());
    settle().await;
    opener.release().await?;
    waiting.await??.release().await?;
    assert_eq!(leases(&stage.script), [secs(10)]);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lingers_is_not_kept_for_one_that_asks_for_a_longer_lease() -> Test {
    for patient in [true, false] {
        let stage = Stage::new();
        let lock = |lease| stage.locks.lock("k").lease(lease).linger(secs(60));
        lock(ms(200)).await?.release().await?;
        lock(ms(200)).await?.release().await?;
        assert_eq!(leases(&stage.script), [ms(200)], "it lingers");
        let guard = match patient {
            true => lock(secs(10)).await?,
            false => lock(secs(10)).try_acquire().await?.expect("nobody holds it"),
        };
        stage.script.always(Verb::Renew, Act::Never);
        sleep(secs(9)).await;
        assert!(guard.is_held());
        stage.script.heal();
        settle().await;
        guard.release().await?;
        lock(ms(200)).await?.release().await?;
        assert_eq!(leases(&stage.script), [ms(200), secs(10)], "and that one lingers");
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_whose_claim_was_opened_by_another_that_left_has_its_lease() -> Test {
    let stage = Stage::new();
    let held = stage.rival.lock("k").await?;
    let opener = tokio::spawn(stage.locks.lock("k").lease(ms(200)).acquire());
    settle().await;
    let waiting = tokio::spawn(stage.locks.lock("k").lease(secs(10)).acquire());
    settle().await;
    opener.abort();
    settle().await;
    held.release().await?;
    let guard = waiting.await??;
    assert!(guard.lease_left() > secs(9), "{:?}", guard.lease_left());
    guard.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_lease_is_renewed_before_it_is_handed_on() -> Test {
    for linger in [ms(0), secs(60)] {
        let stage = Stage::new();
        // The first is for tokens.
        stage.script.next(Verb::Renew, Act::Ok);
        stage.script.always(Verb::Renew, Act::Stuck);
        let lock = || stage.locks.lock("k").lease(secs(9)).linger(linger);
        let opener = lock().await?;
        let idle = !linger.is_zero();
        let early = (!idle).then(|| tokio::spawn(lock().acquire()));
        // The renewal at a third hangs.
        sleep(secs(6)).await;
        opener.release().await?;
        let waiting = early.unwrap_or_else(|| tokio::spawn(lock().acquire()));
        settle().await;
        assert!(!waiting.is_finished(), "it has the rest of a lease");
        stage.script.heal();
        let guard = waiting.await??;
        assert!(guard.lease_left() > secs(8), "{:?}", guard.lease_left());
        assert_eq!(leases(&stage.script).len(), 1);
        guard.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_before_a_hand_off_ends_with_the_lease_and_the_key_is_had_anew() -> Test
{
    let stage = Stage::new();
    // The first is for tokens, as somebody waits.
    stage.script.next(Verb::Renew, Act::Ok);
    stage.script.always(Verb::Renew, Act::Slow(secs(30)));
    let begun = Instant::now();
    let opener = stage.locks.lock("k").lease(secs(9)).await?;
    let waiting = tokio::spawn(stage.locks.lock("k").lease(secs(9)).wait(secs(60)).acquire());
    sleep(secs(6)).await;
    opener.release().await?;
    let guard = waiting.await??;
    // A request runs to its end; then the old claim is withdrawn, and another opened.
    assert_after(begun, Instant::now(), secs(33));
    assert!(guard.lease_left() > secs(8), "{:?}", guard.lease_left());
    guard.release().await?;
    stage.is_clean(secs(60)).await;
    Ok(())
}

/// The store of this process, as if it had replicas that acknowledge all that they are asked for.
#[derive(Debug, Default)]
struct Replicated(Memory);

impl Backend for Replicated {
    type Claim = <Memory as Backend>::Claim;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.replicas = true;
        capabilities
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Self::Claim {
        self.0.claim(key, id, terms)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.0.inspect(key).await
    }
}

fn replicated() -> (LockClient, Script) {
    let (backend, script) = Scripted::new(Replicated::default());
    (LockClient::with_backend(backend), script)
}

#[track_caller]
fn refused(error: AcquireError) -> NotReplicatedError {
    let AcquireError::NotReplicated(why) = error else { panic!("{error:?}") };
    why
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_that_asks_for_more_replicas_than_its_hold_has_is_refused_at_once() -> Test {
    for (has, wants, enters) in
        [(0, 0, true), (0, 1, false), (1, 1, true), (1, 2, false), (2, 1, true), (2, 0, true)]
    {
        let (locks, script) = replicated();
        let outer = locks.lock("order:42").replicas(has, ms(20)).await?;
        let asked = script.calls().len();
        let begun = Instant::now();
        let inner = locks.lock("order:42").replicas(wants, ms(50)).retries(3).acquire();
        match outer.scope(inner).await {
            Ok(inner) => {
                assert!(enters, "{has} {wants}");
                assert_eq!(inner.token(), outer.token());
            }
            Err(error) => {
                assert!(!enters && !error.is_retryable(), "{has} {wants} {error}");
                let text = error.to_string();
                assert!(text.contains("order:42") && text.contains("where it is made"), "{text}");
                let why = refused(error);
                assert!(why.is_reentry());
                assert_eq!((why.wanted(), why.acknowledged()), (wants, has));
                assert_eq!(why.timeout(), if has == 0 { ms(0) } else { ms(20) });
            }
        }
        assert_eq!((begun.elapsed(), script.calls().len()), (ms(0), asked), "without the store");
        assert!(outer.is_held(), "the hold goes on");
        outer.release().await?;
        settle().await;
        assert_eq!(locks.stats().keys, 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_that_lacks_replicas_waits_for_no_turn_and_runs_nothing() -> Test {
    let (locks, _) = replicated();
    let outer = locks.lock("k").await?;
    let calls = async {
        let busy = locks.lock("k").run(|_| pending::<()>());
        let late = async {
            settle().await;
            let begun = Instant::now();
            let work = async |_| unreachable!("the body of a refused call");
            let run: Result<(), _> = locks.lock("k").replicas(1, ms(20)).run(work).await;
            let tried = locks.lock("k").replicas(1, ms(20)).try_acquire().await;
            assert_eq!(begun.elapsed(), ms(0));
            (run, tried)
        };
        tokio::select! {
            _ = busy => unreachable!("it stays"),
            late = late => late,
        }
    };
    let (run, tried) = outer.scope(calls).await;
    match run {
        Err(RunError::Acquire(error)) => drop(refused(error)),
        other => panic!("{other:?}"),
    }
    refused(tried.expect_err("refused"));
    // A stranger to the hold is none of this.
    assert!(locks.lock("k").replicas(1, ms(20)).try_acquire().await?.is_none());
    outer.release().await?;
    locks.lock("k").replicas(1, ms(20)).await?.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_is_under_the_lease_of_its_hold_which_is_renewed_for_both() -> Test {
    let stage = Stage::new();
    let outer = stage.locks.lock("k").lease(ms(200)).await?;
    let inner = outer.scope(stage.locks.lock("k").lease(secs(10)).acquire()).await?;
    assert!(inner.lease_left() <= ms(200));
    outer.release().await?;
    sleep(secs(60)).await;
    assert!(inner.is_held());
    assert_eq!(leases(&stage.script), [ms(200)]);
    inner.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}
