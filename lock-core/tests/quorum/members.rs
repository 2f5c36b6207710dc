//! F41: members that are down, slow, or come back.

use std::pin::pin;

use lock_core::LockClient;
use lock_core::backend::FaultKind;
use lock_core::error::OperatorError;
use lock_core::quorum::{Quorum, QuorumError};
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep, timeout};

use crate::{Stage, ms, short};

const DOWN: Act = Act::Err(FaultKind::Transient);

fn fail(stage: &Stage, members: usize, act: Act) {
    for script in &stage.scripts[..members] {
        Verb::ALL.into_iter().for_each(|verb| script.always(verb, act));
    }
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_is_down_or_hangs_costs_nothing() {
    for (members, failed) in [(3, 1), (5, 2)] {
        for act in [DOWN, Act::Lost, Act::Never, Act::Stuck, Act::Slow(ms(60_000))] {
            let stage = Stage::of(members);
            fail(&stage, failed, act);
            let begun = Instant::now();
            for _ in 0..20 {
                let guard = stage.locks.lock("k").options(short()).await.unwrap();
                guard.release().await.unwrap();
            }
            assert!(begun.elapsed() <= ms(20), "{members}, {act:?}: {:?}", begun.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_majority_that_is_down_grants_nothing_within_the_budget() {
    for (members, failed) in [(3, 2), (5, 3)] {
        for act in [DOWN, Act::Never, Act::Stuck] {
            let stage = Stage::of(members);
            fail(&stage, failed, act);
            let begun = Instant::now();
            let error = stage.locks.lock("k").options(short()).await.unwrap_err();
            assert!(error.is_unavailable() && error.is_retryable(), "{members}, {act:?}: {error}");
            assert!(begun.elapsed() <= ms(5_020), "{members}, {act:?}: {:?}", begun.elapsed());
            stage.scripts.iter().for_each(|script| script.heal());
            sleep(ms(3_000)).await;
            stage.assert_clean();
        }
    }
}

/// It may be of the one who is next, and counts on it once the others are handed on.
#[tokio::test(start_paused = true)]
async fn what_is_taken_away_is_that_of_the_holder_at_a_majority() {
    let stage = Stage::of(3);
    let at_one = LockClient::with_backend(stage.stores[2].clone());
    let beside = at_one.lock("k").await.unwrap();
    let holder = async || at_one.inspect("k").await.unwrap().holder().map(|it| it.claim.clone());
    let before = holder().await;
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    assert!(stage.locks.force_release("k").await.unwrap());
    assert_eq!(holder().await, before, "it held no majority");
    guard.lost().await;
    drop(guard);
    sleep(ms(100)).await;
    // Nobody has a majority: what is left anywhere would keep others from one.
    assert!(!stage.locks.force_release("k").await.unwrap());
    assert_eq!(holder().await, None);
    drop(beside);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_keeps_nobody_in_the_key() {
    let stage = Stage::of(3);
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    stage.scripts[0].always(Verb::Inspect, Act::Stuck);
    let mut taking = pin!(stage.locks.force_release("k"));
    tokio::select! {
        biased;
        taken = &mut taking => panic!("one has not answered: {taken:?}"),
        lost = timeout(ms(20), guard.lost()) => drop(lost.expect("the other two are a majority")),
    }
    stage.scripts[0].heal();
    assert!(taking.await.unwrap());
    drop(guard);
    sleep(ms(1)).await;
    stage.assert_clean();
}

/// It may be of a holder who has its majority at those that do not answer.
#[tokio::test(start_paused = true)]
async fn nothing_is_taken_away_where_too_few_say_who_holds_it() {
    for act in [DOWN, Act::Lost] {
        let stage = Stage::of(3);
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        stage.scripts[1..].iter().for_each(|script| script.always(Verb::Inspect, act));
        assert!(stage.locks.force_release("k").await.is_err(), "{act:?}");
        assert!(stage.stores.iter().all(|store| store.keys() == 1), "{act:?}");
        assert!(guard.is_held(), "{act:?}");
    }
}

/// One of the two that granted it is enough: the other is no majority.
#[tokio::test(start_paused = true)]
async fn a_key_that_a_majority_has_no_more_was_taken_away() {
    for act in [DOWN, Act::Lost] {
        let stage = Stage::of(3);
        stage.scripts[0].always(Verb::Attempt, DOWN);
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        stage.scripts[1].always(Verb::ForceRelease, act);
        assert!(stage.locks.force_release("k").await.unwrap(), "{act:?}");
        guard.lost().await;
    }
}

/// A majority that fails is tried again, unless those that refuse are too many by themselves.
#[tokio::test(start_paused = true)]
async fn one_that_refuses_makes_no_refusal_of_the_quorum() {
    const REFUSES: Act = Act::Err(FaultKind::Refused);
    for (acts, is_retryable) in [([REFUSES, DOWN], true), ([REFUSES, REFUSES], false)] {
        for verb in [Verb::Inspect, Verb::ForceRelease] {
            let stage = Stage::of(3);
            let guard = stage.locks.lock("k").options(short()).await.unwrap();
            for (script, act) in stage.scripts.iter().zip(acts) {
                script.always(verb, act);
            }
            let error = stage.locks.force_release("k").await.unwrap_err();
            let OperatorError::Unavailable(error) = error else { panic!("{error}") };
            assert_eq!(error.is_retryable(), is_retryable, "{verb:?}, {acts:?}: {error}");
            drop(guard);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_minority_and_not_a_majority() {
    for act in [DOWN, Act::Never] {
        let stage = Stage::of(5);
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        fail(&stage, 2, act);
        sleep(ms(10_000)).await;
        assert!(guard.is_held(), "{act:?}");
        fail(&stage, 3, act);
        let begun = Instant::now();
        guard.lost().await;
        assert!(begun.elapsed() <= ms(1_000), "{act:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_holds_the_key_too() {
    let stage = Stage::of(3);
    fail(&stage, 1, DOWN);
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    assert_eq!(stage.stores[0].keys(), 0);
    stage.scripts[0].heal();
    sleep(ms(3_000)).await;
    assert_eq!(stage.stores[0].keys(), 1, "repaired by a renewal");
    // Now another may go.
    stage.scripts[1].always(Verb::Renew, DOWN);
    sleep(ms(3_000)).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    sleep(ms(1)).await;
    assert_eq!((stage.stores[0].keys(), stage.stores[2].keys()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_away_at_the_release_is_told_when_it_is_back() {
    let stage = Stage::of(3);
    let guard = stage.locks.lock("k").options(short()).await.unwrap();
    sleep(ms(1)).await;
    stage.scripts[2].always(Verb::Withdraw, DOWN);
    guard.release().await.unwrap();
    assert_eq!(stage.stores[2].keys(), 1);
    stage.scripts[2].heal();
    sleep(ms(300)).await;
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_refused_right_at_a_majority_is_no_fault_that_passes() {
    let stage = Stage::of(3);
    fail(&stage, 2, Act::Err(FaultKind::Refused));
    let error = stage.locks.lock("k").options(short()).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
}

#[test]
fn too_few_members_and_unfit_ones_are_refused_by_place() {
    use lock_core::memory::Memory;
    let two = Quorum::new(vec![Memory::new(), Memory::new()]);
    assert_eq!(two.unwrap_err(), QuorumError::TooFew { given: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_is_left_alone_but_for_probes_and_is_back_when_it_answers() {
    let stage = Stage::of(3);
    fail(&stage, 1, Act::Never);
    let take = async || {
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        guard.release().await.unwrap();
        sleep(ms(1)).await;
    };
    for _ in 0..500 {
        take().await;
    }
    let asked = stage.scripts[0].calls_of(Verb::Attempt).len();
    for _ in 0..1_000 {
        take().await;
    }
    let probes = stage.scripts[0].calls_of(Verb::Attempt).len() - asked;
    assert!((1..=10).contains(&probes), "{probes} requests in a second or two");
    stage.scripts[0].heal();
    sleep(ms(3_000)).await;
    for _ in 0..300 {
        take().await;
    }
    let asked = stage.scripts[0].calls_of(Verb::Attempt).len();
    take().await;
    assert_eq!(stage.scripts[0].calls_of(Verb::Attempt).len(), asked + 1, "asked like the others");
}

/// The slower of the two that are left is far behind the faster.
#[tokio::test(start_paused = true)]
async fn without_one_member_the_slower_of_the_others_is_waited_for() {
    for act in [DOWN, Act::Err(FaultKind::Unready), Act::Never] {
        let stage = Stage::of(3);
        fail(&stage, 1, act);
        stage.scripts[1].always(Verb::Attempt, Act::Slow(ms(80)));
        for _ in 0..10 {
            let guard = stage.locks.lock("k").options(short()).try_acquire().await.unwrap();
            guard.expect("a free key").release().await.unwrap();
            sleep(ms(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_uncontended_cycle_asks_each_member_twice_and_renews_nothing() {
    let stage = Stage::of(3);
    // One that is a little late is no news, neither to the holder nor to who is next.
    stage.scripts[2].always(Verb::Attempt, Act::Slow(ms(1)));
    for _ in 0..20 {
        let guard = stage.locks.lock("k").options(short()).await.unwrap();
        sleep(ms(2)).await;
        guard.release().await.unwrap();
    }
    for script in &stage.scripts {
        let of = |verb| script.calls_of(verb).len();
        assert_eq!((of(Verb::Attempt), of(Verb::Renew), of(Verb::Withdraw)), (20, 0, 20));
    }
}
