//! How waits end, and tries that may not wait.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{LEASE, World, lasting, ms};
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
