//! Refusals: of whom, and when.

use super::super::*;
use super::tables::held;
use super::world::{World, lasting, ms};

const MANY: usize = 10_000;

/// A key that is held for 10 ms at a time, with `waiters` of long patience in line.
fn busy(waiters: usize) -> World {
    let mut world = held(1_000_000, false, 1, 64, ms(20));
    let ask = world.ask(ms(10_000));
    for _ in 1..waiters {
        world.enter(ask, MANY);
    }
    for _ in 0..16 {
        hand_on(&mut world, ms(10));
        let ask = world.ask(ms(10_000));
        world.enter(ask, MANY);
    }
    world
}

/// The holder releases after `hold`, and the next reads its grant.
fn hand_on(world: &mut World, hold: Duration) {
    let mut left = hold;
    while !left.is_zero() {
        let step = left.min(ms(100));
        world.advance(step);
        world.turn();
        world.answer(Some((1_000_000, false)), true);
        left -= step;
    }
    world.release(0);
    while !world.told.is_empty() {
        world.read(0);
    }
}

fn admitted(world: &World, wait: Duration) -> Ask {
    Ask { admission: true, ..world.ask(wait) }
}

#[test]
fn a_line_that_takes_longer_than_the_budget_refuses_at_arrival() {
    let mut world = busy(100);
    let ask = admitted(&world, ms(900));
    let Entry::Refused(overload) = world.enter(ask, MANY) else { panic!("let in") };
    assert_eq!((overload.waiters, overload.left), (100, ms(900)));
    assert!((ms(1_000)..ms(1_030)).contains(&overload.estimate), "{overload:?}");
    assert_eq!(world.cohort.counters().refused, 1);
    let ask = admitted(&world, ms(1_200));
    assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)));
}

#[test]
fn without_admission_everybody_waits() {
    let mut world = busy(100);
    let ask = world.ask(ms(10));
    assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)));
}

#[test]
fn the_head_of_the_line_is_let_in_however_long_it_may_take() {
    let mut world = busy(1);
    world.cancel(0);
    world.advance(ms(200));
    let ask = admitted(&world, ms(50));
    assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)), "nobody else waits");
}

#[test]
fn a_grant_that_leaves_less_than_the_usual_hold_is_passed_on() {
    let mut world = busy(2);
    let ask = admitted(&world, ms(48));
    // Let in: 30 ms for three, and 10 ms for the hold.
    assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)));
    let without = world.ask(ms(10_000));
    world.enter(without, MANY);
    hand_on(&mut world, ms(10));
    hand_on(&mut world, ms(1));
    let timed_out = world.timed_out;
    // 6 ms of its 48 are left then.
    hand_on(&mut world, ms(31));
    assert_eq!(world.timed_out, timed_out + 1);
    assert_eq!(world.guards.len(), 1, "the one behind it has the key");
}

#[test]
fn one_that_is_granted_as_the_one_before_it_made_way_has_what_it_asked_for_itself() {
    for lease in [300, 900, 901] {
        let mut world = busy(1);
        world.cancel(0);
        let (_, _, _, until) = world.cohort.holds(world.now)[0];
        // Renewals hang from a third on.
        world.advance(until - ms(490) - world.now);
        let ask = Ask { terms: lasting(ms(300)), ..admitted(&world, ms(45)) };
        assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)));
        let ask = Ask { terms: lasting(ms(lease)), ..world.ask(ms(10_000)) };
        world.enter(ask, MANY);
        world.advance(ms(41));
        world.release(0);
        let enough = lease == 300;
        assert_eq!(world.told.len(), 1 + usize::from(enough), "{lease}: the first made way");
        world.turn();
        world.answer(Some((1_000_000, false)), true);
        world.finish();
        assert_eq!(world.opened.len(), 1 + usize::from(lease == 901), "{lease}");
    }
}

#[test]
fn those_who_came_before_anything_was_known_are_told_when_it_is() {
    let mut world = held(1_000_000, false, 1, 64, ms(20));
    for _ in 0..100 {
        let ask = admitted(&world, ms(500));
        assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)));
    }
    // The first hold had begun before anybody waited.
    for _ in 0..9 {
        assert_eq!(world.refused, 0);
        hand_on(&mut world, ms(10));
    }
    // 41 can be served in the 410 ms that are left; a bucket is an eighth wide.
    let left = world.cohort.waiters();
    assert!((40..48).contains(&left), "{left} wait on");
    assert_eq!(world.refused as usize, 101 - 9 - left);
    while world.cohort.waiters() > 0 {
        hand_on(&mut world, ms(10));
    }
    // Those between the bounds are told as soon as it is seen, none at its deadline.
    assert!(world.timed_out <= 2, "{}", world.timed_out);
    let served = 101 - world.refused - world.timed_out;
    assert!((47..52).contains(&served), "{served} served in 500 ms");
}

#[test]
fn one_long_hold_drives_nobody_away() {
    let mut world = busy(30);
    for _ in 0..20 {
        let ask = admitted(&world, ms(2_000));
        assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)));
    }
    hand_on(&mut world, ms(400));
    for _ in 0..8 {
        hand_on(&mut world, ms(10));
    }
    assert_eq!((world.refused, world.timed_out), (0, 0));
}

#[test]
fn a_key_that_was_idle_for_long_tells_nothing_about_the_next_wait() {
    let mut world = World::new();
    let lingering = |world: &World| Ask { linger: ms(600), ..admitted(world, ms(400)) };
    let ask = lingering(&world);
    world.enter(ask, MANY);
    world.turn();
    world.answer(Some((1_000_000, false)), true);
    world.read(0);
    for _ in 0..16 {
        let ask = lingering(&world);
        world.enter(ask, MANY);
        hand_on(&mut world, ms(10));
    }
    world.advance(ms(10));
    world.release(0);
    world.turn();
    world.advance(ms(200));
    let ask = lingering(&world);
    assert!(matches!(world.enter(ask, MANY), Entry::Granted(_)), "kept for it");
    for _ in 0..30 {
        let ask = lingering(&world);
        assert!(matches!(world.enter(ask, MANY), Entry::Seated(_)), "{:?}", world.cohort);
    }
}

#[test]
fn a_store_that_is_away_is_no_overload() {
    let mut world = busy(3);
    world.asking = None;
    // The lease ends, and nobody answers.
    for _ in 0..20 {
        world.advance(ms(100));
        world.turn();
        world.answer(None, false);
    }
    assert!(world.cohort.holder().is_none());
    let ask = admitted(&world, ms(50));
    assert!(!matches!(world.enter(ask, MANY), Entry::Refused(_)));
}

#[test]
fn the_last_in_line_keeps_its_turn_however_late_it_comes() {
    let mut world = busy(1);
    world.cancel(0);
    let ask = admitted(&world, ms(100));
    world.enter(ask, MANY);
    hand_on(&mut world, ms(96));
    assert_eq!((world.guards.len(), world.timed_out), (1, 0));
}

/// Most keys are never wanted by two at once, and cost no memory for this.
#[test]
fn what_holds_take_is_learnt_from_when_two_want_the_key_at_once() {
    for waiters in [1, 2] {
        let mut world = World::new();
        for _ in 0..waiters {
            world.enter(world.ask(ms(1_000)), MANY);
        }
        world.turn();
        world.answer(Some((9, false)), true);
        assert_eq!(world.cohort.admission.is_some(), waiters == 2, "{waiters}");
        world.finish();
    }
}
