//! A future dropped at any point, over members of which some are slow and some hang, leaves nothing
//! at any of them.

use std::time::Duration;

use lock_core::backend::{Attempt, Backend, Claim, ClaimId, FaultKind, Terms, Withdrawal};
use lock_core::quorum::Quorum;
use lock_core::test_util::{Act, Cut, Script, Scripted, Verb, cut};
use lock_core::{FencingToken, Key};
use tokio::time::sleep;

use crate::{Stage, ms};

/// So long that nothing ends by itself here.
const LEASE: Duration = ms(60_000);

/// The acts of the members, one after the other.
const MEMBERS: [[Act; 3]; 8] = [
    [Act::Ok, Act::Ok, Act::Ok],
    [Act::Ok, Act::Ok, Act::Slow(ms(3))],
    [Act::Ok, Act::Slow(ms(30)), Act::Never],
    [Act::Ok, Act::Slow(ms(30)), Act::Stuck],
    [Act::Slow(ms(30)), Act::Slow(ms(3)), Act::Stuck],
    [Act::Ok, Act::Lost, Act::Slow(ms(3))],
    [Act::Err(FaultKind::Transient), Act::Slow(ms(30)), Act::Ok],
    [Act::Lost, Act::Stuck, Act::Never],
];

const CUTS: [Cut; 10] = [
    Cut::Unpolled,
    Cut::Polled(1),
    Cut::Polled(2),
    Cut::Polled(3),
    Cut::Polled(4),
    Cut::Polled(5),
    Cut::After(ms(1)),
    Cut::After(ms(10)),
    Cut::After(ms(100)),
    Cut::After(ms(3_000)),
];

fn set(scripts: &[Script], acts: [Act; 3], verbs: &[Verb]) {
    for (script, act) in scripts.iter().zip(acts) {
        verbs.iter().for_each(|verb| script.always(*verb, act));
    }
}

/// Once the members are well again nothing is left at any of them, and tokens have grown.
async fn goes_on(stage: &Stage, last: &mut Option<FencingToken>, case: &str) {
    stage.scripts.iter().for_each(Script::heal);
    // A pause between two withdrawals is at most a second.
    sleep(ms(1_500)).await;
    let keys: Vec<_> = stage.stores.iter().map(|store| store.keys()).collect();
    assert_eq!(keys, [0, 0, 0], "{case}");
    let stats = stage.locks.stats();
    assert_eq!((stats.keys, stats.waiters, stats.held), (0, 0, 0), "{case}");
    let (rival, _) = stage.another();
    let guard =
        rival.lock("k").wait(ms(100)).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(Some(guard.token()) > *last, "{case}");
    *last = Some(guard.token());
    guard.release().await.unwrap();
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquire_leaves_nothing_at_any_member() {
    for acts in MEMBERS {
        for late in [false, true] {
            let (stage, mut last) = (Stage::of(3), None);
            for at in CUTS {
                let acquire = stage.locks.lock("k").lease(LEASE).wait(ms(5_000));
                // The attempt, or only what follows it.
                let verbs = [Verb::Attempt, Verb::Renew, Verb::Withdraw];
                set(&stage.scripts, acts, if late { &verbs[1..] } else { &verbs });
                drop(cut(at, acquire.acquire()).await);
                goes_on(&stage, &mut last, &format!("{acts:?}, {late}, {at:?}")).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_try_leaves_nothing_at_any_member() {
    for acts in MEMBERS {
        let (stage, mut last) = (Stage::of(3), None);
        for at in CUTS {
            let held = stage.another().0.lock("k").lease(LEASE).await.unwrap();
            set(&stage.scripts, acts, &[Verb::Attempt, Verb::Withdraw]);
            drop(cut(at, stage.locks.lock("k").lease(LEASE).try_acquire()).await);
            held.release().await.unwrap();
            goes_on(&stage, &mut last, &format!("{acts:?}, {at:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_release_goes_on_at_every_member() {
    for acts in MEMBERS {
        let (stage, mut last) = (Stage::of(3), None);
        for at in CUTS {
            // The third has not answered the attempt.
            stage.scripts[2].next(Verb::Attempt, Act::Stuck);
            let guard = stage.locks.lock("k").lease(LEASE).await.unwrap();
            assert!(Some(guard.token()) > last);
            last = Some(guard.token());
            set(&stage.scripts, acts, &[Verb::Withdraw]);
            drop(cut(at, guard.release()).await);
            goes_on(&stage, &mut last, &format!("{acts:?}, {at:?}")).await;
        }
    }
}

const TERMS: Terms = Terms::exclusive(LEASE);

/// A claim that a majority has granted, and the script of the third, whose attempt is stuck.
async fn granted_but_for_one() -> (Stage, Script, impl Claim) {
    let stage = Stage::of(3);
    let (members, mut scripts): (Vec<_>, Vec<_>) =
        stage.stores.iter().map(|store| Scripted::new(store.clone())).unzip();
    let late = scripts.pop().unwrap();
    late.always(Verb::Attempt, Act::Stuck);
    let quorum = Quorum::new(members).unwrap();
    let mut claim = quorum.claim(&Key::new("k").unwrap(), ClaimId::from_bits(1 << 80), TERMS);
    assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
    (stage, late, claim)
}

/// Whether it is dropped or kept, and never polled again.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_withdrawn_is_so_at_members_that_were_late() {
    for kept in [false, true] {
        let (stage, late, mut claim) = granted_but_for_one().await;
        claim.withdraw().await.unwrap();
        assert_eq!(late.calls_of(Verb::Withdraw).len(), 0, "behind the attempt");
        let kept = kept.then_some(claim);
        late.heal();
        sleep(ms(1)).await;
        let calls = late.calls();
        assert!(calls.len() == 2 && calls.iter().all(|call| call.ended), "{calls:?}");
        stage.assert_clean();
        if let Some(mut claim) = kept {
            // It can be asked again.
            assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
            claim.withdraw().await.unwrap();
            stage.assert_clean();
        }
    }
}

/// One member was late to grant it, and so has it for longer than a majority does. Others may have
/// held the key meanwhile.
#[tokio::test(start_paused = true)]
async fn what_a_late_member_has_of_a_hold_that_is_over_makes_no_release() {
    for is_over in [false, true] {
        let (stage, late, mut claim) = granted_but_for_one().await;
        sleep(ms(1_000)).await;
        late.heal();
        sleep(if is_over { TERMS.lease - ms(500) } else { ms(1) }).await;
        let released = if is_over { Withdrawal::NotHeld } else { Withdrawal::Released };
        assert_eq!(claim.withdraw().await.unwrap(), released, "over: {is_over}");
        stage.assert_clean();
    }
}

/// As a backend says: a dropped claim that was not withdrawn ends with its lease.
#[test]
fn a_claim_may_be_dropped_where_there_is_no_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let stage = runtime.block_on(async { Stage::of(3) });
    let (members, scripts): (Vec<_>, Vec<_>) =
        stage.stores.iter().map(|store| Scripted::new(store.clone())).unzip();
    scripts[2].always(Verb::Attempt, Act::Never);
    let quorum = Quorum::new(members).unwrap();
    let mut claim = quorum.claim(&Key::new("k").unwrap(), ClaimId::from_bits(1 << 80), TERMS);
    runtime.block_on(async { claim.attempt().await.unwrap() });
    drop(claim);
}
