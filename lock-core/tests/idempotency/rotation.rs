//! A secret is replaced while processes of before and after serve the same keys.

use std::pin::pin;

use bytes::Bytes;
use futures_util::poll;
use lock_core::LockClient;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{
    BeginError, Begun, Execution, Fingerprint, Idempotency, OnUnknown, SECRET_DEFAULT, Scope,
};
use lock_core::test_util::records::RecordVerb;
use lock_core::test_util::{Act, Verb};
use tokio::time::Instant;

use crate::{ASKED, Stage, Test, assert_after, ms, process, rejecting, secs, settle};

const NEW: &str = "the new secret of the service";

/// Enough for ids of both orders: which lock is taken first depends on the key.
const KEYS: u8 = 16;

/// The processes of a service on one store.
struct Fleet {
    stage: Stage,
    /// Knows the old secret, the one that everybody knows.
    before: Idempotency,
    /// Know both; the requests of the first follow the scripts.
    during: Idempotency,
    during_too: Idempotency,
    /// Knows the new secret.
    after: Idempotency,
}

impl Fleet {
    fn new() -> Self {
        let mut stage = Stage::new();
        let both =
            |once: &Idempotency| once.clone().with_secret(NEW).with_old_secret(SECRET_DEFAULT);
        let one_more = || process(&stage.lock_store, stage.records.clone());
        let (before, after) = (one_more(), one_more().with_secret(NEW));
        let (during, during_too) = (both(&stage.once), both(&stage.other));
        (stage.once, stage.other) = (during.clone(), during_too.clone());
        Self { stage, before, during, during_too, after }
    }

    /// Those who may run beside one another, in either order.
    /// The third is how many records an outcome of the first one has.
    fn pairs(&self) -> [(&Idempotency, &Idempotency, usize); 5] {
        [
            (&self.before, &self.during, 1),
            (&self.during, &self.before, 2),
            (&self.during, &self.during_too, 2),
            (&self.during, &self.after, 2),
            (&self.after, &self.during, 1),
        ]
    }

    /// Nothing is left but `records` records.
    async fn ends_clean(self, records: usize) {
        for one in [&self.before, &self.after] {
            assert!(one.locks().shutdown(secs(20)).await.complete);
        }
        let Self { stage, .. } = self;
        stage.is_clean(records, secs(20)).await;
    }
}

async fn begin(once: &Idempotency, key: u8) -> Result<Begun, BeginError> {
    once.begin(&Scope::of("tenant"), &[key], ASKED).await
}

async fn run(once: &Idempotency, key: u8) -> Execution {
    match begin(once, key).await {
        Ok(Begun::Run(execution)) => execution,
        other => panic!("{other:?} is no run"),
    }
}

async fn replay(once: &Idempotency, key: u8) -> Bytes {
    match begin(once, key).await {
        Ok(Begun::Replay(payload)) => payload,
        other => panic!("{other:?} is no replay"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_runs_beside_one_another_gives_the_same_answer_and_runs_once() -> Test {
    let fleet = Fleet::new();
    let mut records = 0;
    for (at, (one, other, of_one)) in (0..).zip(fleet.pairs()) {
        for key in (0..KEYS).map(|key| key + KEYS * at) {
            let held = run(one, key).await;
            let refused = begin(&rejecting(other), key).await?;
            assert!(matches!(refused, Begun::InFlight { .. }), "{at}: {refused:?}");
            let waits = tokio::spawn({
                let other = other.clone();
                async move { replay(&other, key).await }
            });
            settle().await;
            held.complete(Bytes::from_static(b"paid")).await?;
            assert_eq!(waits.await?, "paid");
            assert_eq!(replay(one, key).await, "paid");
            records += of_one;
        }
    }
    let stats = fleet.during.stats();
    let ran = u64::from(KEYS) * 3;
    assert_eq!((stats.executed, stats.completed, stats.aborted, stats.unknown), (ran, ran, 0, 0));
    fleet.ends_clean(records).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_an_aborted_execution_runs_and_nothing_else_is_left() -> Test {
    let fleet = Fleet::new();
    for (at, (one, other, _)) in (0_u8..).zip(fleet.pairs()) {
        for key in 0..KEYS {
            let held = run(one, key).await;
            let waits = tokio::spawn({
                let other = other.clone();
                async move { run(&other, key).await }
            });
            settle().await;
            match key % 3 {
                0 => held.abort().await?,
                1 => held.give_up().await?,
                _ => drop(held),
            }
            let next = waits.await?;
            assert_eq!(next.replaced(), None, "{at}");
            next.abort().await?;
        }
    }
    fleet.ends_clean(0).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_has_no_outcome_is_unknown_under_either_secret() -> Test {
    let fleet = Fleet::new();
    let mut records = 0;
    for (at, (one, other, of_one)) in (0..).zip(fleet.pairs()) {
        for key in (0..KEYS).map(|key| key + KEYS * at) {
            run(one, key).await.leave();
            settle().await;
            let unknown = begin(&other.clone().with_on_unknown(OnUnknown::Refuse), key).await?;
            assert!(matches!(unknown, Begun::Unknown { .. }), "{at}: {unknown:?}");
            let next = run(other, key).await;
            assert!(next.replaced().is_some());
            next.abort().await?;
            // The record that was there before is there again.
            let again = run(one, key).await;
            assert!(again.replaced().is_some());
            again.complete_without_payload().await?;
            let told = begin(other, key).await?;
            assert!(matches!(told, Begun::WithoutPayload), "{told:?}");
            records += of_one;
        }
    }
    assert_eq!(fleet.during.stats().unknown, 7 * u64::from(KEYS));
    fleet.ends_clean(records).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_request_under_a_key_is_a_mismatch_under_either_secret() -> Test {
    let fleet = Fleet::new();
    for key in 0..KEYS {
        run(&fleet.before, key).await.complete(Bytes::from_static(b"paid")).await?;
        let other = Fingerprint::new([2; 32]);
        let begun = fleet.during.begin(&Scope::of("tenant"), &[key], other).await?;
        assert!(matches!(begun, Begun::Mismatch), "{begun:?}");
        assert_eq!(replay(&fleet.during, key).await, "paid");
    }
    fleet.ends_clean(KEYS.into()).await;
    Ok(())
}

/// Whoever takes over has the one outcome, whichever secret it knows, and the late one is told.
#[tokio::test(start_paused = true)]
async fn a_late_outcome_is_stale_where_another_took_over_under_one_of_the_secrets() -> Test {
    for takes_over in ["before", "after", "both"] {
        for key in 0..KEYS {
            let fleet = Fleet::new();
            let late = run(&fleet.during, key).await;
            fleet.stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
            late.lost().await;
            let next = match takes_over {
                "before" => &fleet.before,
                "after" => &fleet.after,
                _ => &fleet.during_too,
            };
            let taken = run(next, key).await;
            assert!(taken.replaced().is_some());
            taken.complete(Bytes::from_static(b"next")).await?;
            let error = late.complete(Bytes::from_static(b"late")).await.unwrap_err();
            assert!(error.is_stale(), "{takes_over}: {error}");
            fleet.stage.lock_script.heal();
            settle().await;
            let refusing = fleet.during.clone().with_on_unknown(OnUnknown::Refuse);
            for one in [&refusing, next, &fleet.during, &fleet.during_too] {
                assert_eq!(replay(one, key).await, "next", "{takes_over}");
            }
            assert_eq!(fleet.during.stats().stale_completions, 1);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_of_the_two_locks_is_told() -> Test {
    for key in 0..KEYS {
        for old in [false, true] {
            let fleet = Fleet::new();
            let execution = run(&fleet.during, key).await;
            let known = if old { &fleet.before } else { &fleet.after };
            let lock = format!("idem:{}", known.record_id(&Scope::of("tenant"), &[key]));
            let locks = LockClient::with_backend(fleet.stage.lock_store.clone());
            assert!(locks.force_release(&*lock).await?);
            execution.lost().await;
            drop(execution);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_take_the_outcome_is_told_in_time_and_takes_it_later() -> Test {
    for key in 0..KEYS {
        let fleet = Fleet::new();
        let execution = run(&fleet.during, key).await;
        fleet.stage.script.always(RecordVerb::Complete, Act::Err(FaultKind::Transient));
        let asked = Instant::now();
        let waits = tokio::spawn({
            let during = fleet.during.clone();
            async move { replay(&during, key).await }
        });
        let error = execution.complete(Bytes::from_static(b"paid")).await.unwrap_err();
        assert!(!error.is_stale(), "{error}");
        assert_after(asked, secs(2));
        // Those who wait here are told in time as well.
        assert_eq!(waits.await?, "paid");
        assert!(asked.elapsed() < secs(5), "{:?}", asked.elapsed());
        fleet.stage.script.heal();
        assert!(fleet.during.idle(secs(30)).await);
        for one in [&fleet.before, &fleet.during, &fleet.after] {
            assert_eq!(replay(one, key).await, "paid");
        }
        assert_eq!(fleet.during.stats().unwritten_completions, 1);
        fleet.ends_clean(2).await;
    }
    Ok(())
}

/// The store takes no outcome, the lock under the old secret ends, and a process that knows that secret
/// alone takes over: its outcome is the one, and the late one is written nowhere.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_not_written_in_time_is_dropped_where_another_took_over() -> Test {
    for key in 0..KEYS {
        let fleet = Fleet::new();
        let late = run(&fleet.during, key).await;
        fleet.stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
        fleet.stage.script.always(RecordVerb::Complete, Act::Err(FaultKind::Transient));
        late.lost().await;
        // It is told in time that its outcome is not written, and goes on to try.
        let error = late.complete(Bytes::from_static(b"late")).await.unwrap_err();
        assert!(!error.is_stale(), "{error}");
        let taken = run(&fleet.before, key).await;
        assert!(taken.replaced().is_some());
        taken.complete(Bytes::from_static(b"next")).await?;
        fleet.stage.script.heal();
        fleet.stage.lock_script.heal();
        assert!(fleet.during.idle(secs(60)).await);
        for one in [&fleet.before, &fleet.during, &fleet.during_too] {
            assert_eq!(replay(one, key).await, "next");
        }
        let refusing = fleet.after.clone().with_on_unknown(OnUnknown::Refuse);
        let unknown = begin(&refusing, key).await?;
        assert!(matches!(unknown, Begun::Unknown { .. }), "{unknown:?}");
        let stats = fleet.during.stats();
        assert_eq!((stats.unwritten_completions, stats.stale_completions), (1, 1));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_is_dropped_anywhere_leaves_nothing() -> Test {
    let mut ended = 0;
    for polls in 0.. {
        let fleet = Fleet::new();
        let mut begun = 0;
        for key in 0..KEYS {
            let mut beginning = pin!(begin(&fleet.during, key));
            for _ in 0..polls {
                if poll!(beginning.as_mut()).is_ready() {
                    begun += 1;
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        fleet.ends_clean(0).await;
        if begun == KEYS {
            ended = polls;
            break;
        }
    }
    assert!(ended > 2, "there was nothing to cut");
    Ok(())
}

/// One that knows both waits for a process that knows one, and goes away: the place under the other
/// secret is given up.
#[tokio::test(start_paused = true)]
async fn who_waits_under_one_secret_and_goes_holds_up_nobody_under_the_other() -> Test {
    let fleet = Fleet::new();
    for key in 0..KEYS {
        let held = run(&fleet.before, key).await;
        let waits = tokio::time::timeout(ms(500), begin(&fleet.during, key)).await;
        assert!(waits.is_err(), "{waits:?}");
        settle().await;
        run(&fleet.after, key).await.abort().await?;
        held.abort().await?;
    }
    fleet.ends_clean(0).await;
    Ok(())
}

/// A deployment that is taken back has the secrets the other way round for a while.
#[tokio::test(start_paused = true)]
async fn who_names_the_secrets_the_other_way_round_is_not_waited_for_in_a_circle() -> Test {
    let fleet = Fleet::new();
    let back = fleet.during_too.clone().with_secret(SECRET_DEFAULT).with_old_secret(NEW);
    for key in 0..KEYS {
        let asked = Instant::now();
        let both = [&fleet.during, &back].map(|once| {
            let once = once.clone();
            tokio::spawn(async move {
                match begin(&once, key).await? {
                    Begun::Run(execution) => {
                        execution.complete(Bytes::from_static(b"paid")).await?
                    }
                    begun => assert!(matches!(begun, Begun::Replay(_)), "{begun:?}"),
                }
                Test::Ok(())
            })
        });
        for one in both {
            one.await??;
        }
        assert!(asked.elapsed() < secs(1), "{:?}", asked.elapsed());
    }
    drop(back);
    fleet.ends_clean(2 * usize::from(KEYS)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_replaces_itself_changes_nothing() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone().with_old_secret(SECRET_DEFAULT);
    run(&once, 0).await.complete(Bytes::from_static(b"paid")).await?;
    assert_eq!(replay(&stage.other, 0).await, "paid");
    drop(once);
    stage.is_clean(1, secs(1)).await;
    Ok(())
}
