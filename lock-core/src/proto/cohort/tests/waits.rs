//! How waits end, tries that may not wait, and when the store is asked.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{LEASE, Request, World, lasting, ms};
use crate::backend::Attempt;

/// One that is granted the key at once or not at all.
fn a_try(world: &World) -> Ask {
    Ask { terms: Terms { queues: false, ..lasting(LEASE) }, ..world.ask(ms(1_000)) }
}

fn blocked() -> Result<Attempt, Fault> {
    Ok(Attempt::Blocked { ahead: Some(1), recheck: ms(500) })
}

#[test]
fn a_try_ends_with_the_first_answer_and_who_queues_waits_on() {
    let mut world = World::new();
    world.enter(a_try(&world), MAX);
    world.enter(world.ask(ms(1_000)), MAX);
    world.turn();
    world.answer_attempt(blocked());
    assert!(matches!(world.read(0), Verdict::TimedOut(BlockedBy::Others { ahead: Some(1) })));
    assert_eq!((world.told.len(), world.waiting.len()), (0, 1));
    world.finish();
}

#[test]
fn two_tries_share_one_question_and_one_of_them_the_answer() {
    let mut world = World::new();
    world.enter(a_try(&world), MAX);
    world.turn();
    world.enter(a_try(&world), MAX);
    assert_eq!(world.waiting.len(), 2, "the store has not said anything of the key");
    world.answer(Some((9, false)), true);
    let verdicts = [world.read(0), world.read(0)];
    assert!(
        matches!(
            verdicts,
            [Verdict::TimedOut(BlockedBy::ThisClient { .. }), Verdict::Granted(_)]
                | [Verdict::Granted(_), Verdict::TimedOut(BlockedBy::ThisClient { .. })]
        ),
        "{verdicts:?}"
    );
    world.finish();
}

#[test]
fn a_try_is_over_at_the_door_where_the_store_has_said_that_others_are_before_it() {
    let mut world = World::new();
    world.enter(world.ask(ms(1_000)), MAX);
    world.turn();
    world.answer_attempt(blocked());
    // The claim is still there, and nobody is in its line.
    world.cancel(0);
    world.enter(a_try(&world), MAX);
    assert!(world.waiting.is_empty());
    world.finish();
}

#[test]
fn a_store_that_did_not_answer_within_the_wait_is_out_of_reach() {
    let mut world = World::new();
    world.enter(world.ask(ms(50)), MAX);
    world.turn();
    world.advance(ms(50));
    assert!(matches!(world.read(0), Verdict::Unavailable(_)));
    assert_eq!(world.cohort.counters().timeouts, 0);
    world.finish();
}

/// As where the keys before it have used up the time of all.
#[test]
fn a_wait_that_is_over_when_it_begins_says_nothing_of_the_store() {
    let mut world = World::new();
    world.enter(world.ask(Duration::ZERO), MAX);
    // Nothing is left to do, and the verdict is read.
    world.turn();
    assert_eq!(world.timed_out, 1);
    world.finish();
}

#[test]
fn a_wait_in_which_the_key_was_seen_held_is_a_time_out() {
    // Others want the key, so it is given back, and asked for anew for the one who waits here.
    let mut world = held(100, true, 1, 0, ms(20));
    world.release(0);
    world.turn();
    assert!(world.leaving.is_some() && world.asking.is_some());
    world.left();
    let deadline = world.waiting[0].2.deadline;
    world.advance(deadline - world.now);
    assert!(matches!(world.read(0), Verdict::TimedOut(_)));
    assert_eq!(world.cohort.counters().timeouts, 1);
    world.finish();
}

#[test]
fn who_waits_can_end_its_wait_by_its_own_clock() {
    let mut world = held(100, false, 1, 64, ms(20));
    let (_, seat, ask) = world.waiting[0];
    world.now = ask.deadline;
    let mut fx = Effects::none();
    world.cohort.expire(seat, &mut fx);
    world.apply(fx);
    assert!(matches!(world.read(0), Verdict::TimedOut(_)));
    assert_eq!(world.cohort.counters().timeouts, 1);
    world.poked = true;
    world.finish();
}

/// Another thread may grant the key between the last look of one who waits and the end of its wait.
#[test]
fn a_grant_is_not_taken_back_by_a_clock() {
    let mut world = held(100, false, 1, 64, ms(20));
    let (_, seat, _) = world.waiting[0];
    world.release(0);
    let mut fx = Effects::none();
    world.cohort.expire(seat, &mut fx);
    world.apply(fx);
    assert!(matches!(world.read(0), Verdict::Granted(_)));
    assert_eq!(world.cohort.counters().timeouts, 0);
    world.finish();
}

#[test]
fn those_who_wait_when_a_client_is_closed_are_told_and_who_comes_later_as_well() {
    let mut world = held(100, false, 2, 64, ms(20));
    let mut fx = Effects::none();
    world.cohort.close(&mut fx);
    world.apply(fx);
    assert!(matches!([world.read(0), world.read(0)], [Verdict::Closed, Verdict::Closed]));
    assert!(matches!(world.enter(world.ask(ms(50)), MAX), Entry::Closed));
    world.finish();
}

#[test]
fn a_claim_stands_in_line_if_anybody_here_does() {
    for (queues, stands) in [(&[false][..], false), (&[true], true), (&[false, true], true)] {
        let mut world = World::new();
        for queues in queues {
            let ask = if *queues { world.ask(ms(1_000)) } else { a_try(&world) };
            world.enter(ask, MAX);
        }
        world.turn();
        let Phase::Asking(asking) = &world.cohort.place else { panic!("it asks") };
        assert_eq!(asking.terms.queues, stands, "{queues:?}");
        world.finish();
    }
}

#[test]
fn pushes_are_listened_for_while_they_matter_to_somebody() {
    let mut world = held(100, false, 0, 64, ms(20));
    world.drive();
    assert!(!world.listens, "a hold that nobody else wants, as far as is known");
    world.watch(0, Event::Lost);
    world.drive();
    assert!(world.listens, "its holder wants to know");
    world.finish();
    let mut world = held(100, false, 1, 64, ms(20));
    world.drive();
    assert!(world.listens, "somebody waits here");
    world.finish();
    let mut world = World::new();
    world.enter(world.ask(ms(1_000)), MAX);
    world.turn();
    world.answer_attempt(blocked());
    world.turn();
    assert!(world.listens, "the claim waits at the store");
    world.finish();
}

/// Advances up to `at`, at which the store is asked and not before.
fn asks_at(world: &mut World, at: Duration, request: Request) {
    world.turn();
    assert_eq!(world.asking, None);
    world.advance(at - ms(1));
    assert_eq!(world.asking, None, "too early");
    world.advance(ms(1));
    assert_eq!(world.asking.map(|asking| asking.0), Some(request));
}

#[test]
fn the_store_is_asked_again_at_the_recheck_after_a_pause_and_for_a_renewal() {
    let mut world = World::new();
    world.enter(world.ask(ms(9_000)), MAX);
    world.turn();
    world.answer_attempt(blocked());
    asks_at(&mut world, ms(500), Request::Attempt);
    world.answer(None, false);
    // The pause of this world.
    asks_at(&mut world, ms(30), Request::Attempt);
    world.answer(Some((100, false)), true);
    world.read(0);
    asks_at(&mut world, LEASE / 3, Request::Renew);
    world.finish();
}

#[test]
fn a_store_that_did_not_answer_is_left_alone_by_the_next_claim_too() {
    let mut world = World::new();
    world.enter(a_try(&world), MAX);
    world.turn();
    world.answer(None, false);
    assert!(matches!(world.read(0), Verdict::Unavailable(_)));
    world.turn();
    world.left();
    world.enter(world.ask(ms(1_000)), MAX);
    asks_at(&mut world, ms(30), Request::Attempt);
    world.finish();
}

#[test]
fn a_cohort_is_taken_off_once_and_only_when_it_is_idle() {
    let mut cohort = World::new().cohort;
    assert!(cohort.retire(false) && !cohort.retire(false));
    for by_driver in [false, true] {
        let mut world = World::new();
        world.enter(world.ask(ms(1_000)), MAX);
        assert!(!world.cohort.retire(by_driver), "somebody waits");
        world.turn();
        world.answer(Some((9, false)), true);
        world.read(0);
        assert!(!world.cohort.retire(by_driver), "somebody holds it");
        world.finish();
    }
}
