//! The question who holds the key, for those whose waits are about to end in vain.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{World, ask, ms};
use crate::backend::{Attempt, Grant, Mode};
use crate::ground::clock;
use crate::view::Holder as Elsewhere;

fn blocked() -> Result<Attempt, Fault> {
    Ok(Attempt::Blocked { ahead: Some(1), recheck: ms(60_000) })
}

/// One who waits for each of these times behind a holder elsewhere.
fn behind_another(waits: &[u64]) -> World {
    let mut world = World::new();
    for wait in waits {
        world.enter(world.ask(ms(*wait)), MAX);
    }
    world.turn();
    world.answer_attempt(blocked());
    world.turn();
    world
}

fn elsewhere() -> Elsewhere {
    Elsewhere::new("ab:1".into(), None, None)
}

#[test]
fn a_store_is_asked_half_a_second_before_the_end_of_a_wait() {
    for (wait, asked) in [(2_000, Some(1_500)), (500, Some(0)), (499, None)] {
        let mut world = behind_another(&[wait]);
        let start = world.now;
        world.advance(ms(wait));
        let asked = asked.map(|at| start + ms(at));
        assert_eq!(world.inspected, asked.into_iter().collect::<Vec<_>>(), "{wait}");
        world.read(0);
        world.finish();
    }
}

#[test]
fn one_question_a_second_serves_all_who_wait() {
    let mut world = behind_another(&[2_000, 2_200, 2_400, 3_400, 3_600]);
    let start = world.now;
    world.advance(ms(3_600));
    assert_eq!(world.inspected, [start + ms(1_500), start + ms(2_900)]);
    (0..5).for_each(|_| drop(world.read(0)));
    world.finish();
}

#[test]
fn a_short_wait_has_no_question_of_its_own_and_is_in_the_way_of_none() {
    let mut world = behind_another(&[300, 400, 2_000]);
    let start = world.now;
    world.advance(ms(2_000));
    assert_eq!(world.inspected, [start + ms(1_500)]);
    (0..3).for_each(|_| drop(world.read(0)));
    world.finish();
}

#[test]
fn nobody_is_asked_for_while_a_claim_of_this_process_leaves() {
    // Others want the key, so it is given back, and asked for anew for the one who waits here.
    let mut world = held(100, true, 1, 0, ms(20));
    world.release(0);
    world.turn();
    world.answer_attempt(blocked());
    world.turn();
    assert!(world.leaving.is_some());
    let deadline = world.waiting[0].2.deadline;
    world.advance(deadline - ms(400) - world.now);
    assert!(world.inspected.is_empty());
    world.left();
    world.turn();
    assert_eq!(world.inspected, [deadline - ms(400)]);
    world.finish();
}

#[test]
fn nobody_is_asked_for_while_a_permit_is_held_here() {
    let mut cohort = Cohort::<u32, u32>::new();
    let (now, mode) = (clock::now(), Mode::Permit { of: 3 });
    let step = |cohort: &mut Cohort<_, _>, lane, now, asking| {
        cohort.step(lane, now, asking, false, &mut Effects::none())
    };
    for _ in 0..2 {
        let mut ask = ask(now, ms(2_000));
        ask.terms = Terms { mode, ..ask.terms };
        let entry = cohort.enter(&ask, now, || 0, &mut Effects::none());
        assert!(matches!(entry, Entry::Seated(_)), "{entry:?}");
    }
    for lane in 0..2 {
        let opened = step(&mut cohort, lane, now, false);
        assert!(matches!(opened, Step::Open(_)), "{opened:?}");
    }
    let no_pause = |_| panic!("it was answered");
    cohort.attempted(0, now, blocked(), now, no_pause, &mut Effects::none());
    let grant = Grant::new(TokenBlock::new(1, 1), ms(60_000));
    cohort.attempted(1, now, Ok(Attempt::Granted(grant)), now, no_pause, &mut Effects::none());
    let late = now + ms(1_600);
    let waits = step(&mut cohort, 0, late, false);
    assert!(matches!(waits, Step::Wait { until: Some(until), .. } if until > late), "{waits:?}");
}

#[test]
fn who_leaves_in_time_has_nobody_asked() {
    let mut world = behind_another(&[1_000, 3_000]);
    let start = world.now;
    world.cancel(0);
    world.advance(ms(2_499));
    assert!(world.inspected.is_empty());
    world.advance(ms(1));
    assert_eq!(world.inspected, [start + ms(2_500)]);
    world.finish();
}

#[test]
fn a_holder_in_this_process_is_not_asked_for() {
    let mut world = held(8, false, 0, 64, ms(20));
    // Within the lease.
    world.enter(world.ask(ms(600)), MAX);
    world.turn();
    world.advance(ms(600));
    assert!(matches!(world.read(0), Verdict::TimedOut(BlockedBy::ThisClient { .. })));
    assert!(world.inspected.is_empty());
    world.finish();
}

#[test]
fn an_answer_is_told_for_two_seconds_from_its_question_on() {
    let mut world = behind_another(&[10_000, 500]);
    let asked = world.inspected[0];
    assert_eq!(world.cohort.rival(world.now), None, "there is no answer yet");
    world.cohort.rival_is(elsewhere(), asked - ms(1));
    assert_eq!(world.cohort.rival(world.now), None, "that was the answer to another question");
    world.cohort.rival_is(elsewhere(), asked);
    let told = |at| world.cohort.rival(asked + ms(at)).as_deref().cloned();
    assert_eq!((told(0), told(1_999), told(2_000)), (Some(elsewhere()), Some(elsewhere()), None));
    world.advance(ms(500));
    world.read(0);
    world.finish();
}

#[test]
fn an_answer_of_a_time_before_a_grant_here_is_not_told() {
    // It may name the claim that was granted.
    for is_answered in [true, false] {
        let mut world = behind_another(&[500, 5_000]);
        let asked = world.inspected[0];
        if is_answered {
            world.cohort.rival_is(elsewhere(), asked);
        }
        world.push();
        world.turn();
        world.answer(Some((9, true)), true);
        world.turn();
        world.cohort.rival_is(elsewhere(), asked);
        assert_eq!(world.cohort.rival(world.now), None);
        world.read(0);
        world.finish();
    }
}
