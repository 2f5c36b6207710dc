//! Single moments.

use super::super::*;
use super::world::{LEASE, Request, World, lasting, ms, replicated};
use crate::backend::{Attempt, Change, Grant, NotReplicated};
use crate::proto::BlockedBy;
use crate::proto::lease::margin;

pub(super) const MAX: usize = 10;

/// A world in which somebody holds the key under a lease with `tokens`, and `waiters` wait with
/// these fairness bounds.
pub(super) fn held(
    tokens: u64,
    wanted: bool,
    waiters: usize,
    handoffs_max: u32,
    slice: Duration,
) -> World {
    let mut world = World::new();
    let ask = Ask { handoffs_max, slice, ..world.ask(ms(10_000)) };
    world.enter(ask, MAX);
    world.turn();
    world.answer(Some((tokens, wanted)), true);
    for _ in 0..waiters {
        world.enter(ask, MAX);
    }
    // The tokens that the line asks for are left to the test.
    if world.asking.is_none() {
        world.turn();
    }
    world.read(0);
    world
}

/// Releases as long as the lock is handed on here; says how often.
fn row(world: &mut World, each: Duration) -> u32 {
    let mut handoffs = 0;
    while !world.guards.is_empty() {
        world.advance(each);
        world.release(0);
        if !world.told.is_empty() {
            world.read(0);
            handoffs += 1;
        }
    }
    handoffs
}

#[test]
fn once_wanted_the_bounds_of_the_next_in_line_end_the_row_of_local_hand_offs() {
    for (wanted, handoffs_max, slice, each, expected) in [
        (false, 0, ms(0), ms(1), 8),
        (true, 0, ms(0), ms(0), 0),
        (true, 0, ms(20), ms(0), 0),
        (true, 3, ms(20), ms(0), 3),
        (true, 64, ms(20), ms(0), 8),
        (true, 64, ms(20), ms(5), 3),
        (true, 64, ms(20), ms(25), 0),
    ] {
        let mut world = held(100, wanted, 8, handoffs_max, slice);
        let handoffs = row(&mut world, each);
        assert_eq!(handoffs, expected, "{wanted} {handoffs_max} {slice:?} {each:?}");
        world.turn();
        if expected < 8 {
            assert!(world.leaving.is_some(), "the claim is given back");
            assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Attempt), "and renewed");
        }
        world.finish();
    }
}

#[test]
fn a_lease_that_is_over_is_never_handed_on() {
    let over = LEASE - margin(LEASE);
    for (age, good) in [(over - ms(1), true), (over, false)] {
        let mut world = held(100, false, 1, 64, ms(20));
        // The driver is kept from the clock: the release itself must look.
        world.now += age;
        let token = world.guards[0];
        assert_eq!(world.cohort.held_until(token, world.now).is_some(), good, "{age:?}");
        world.release(0);
        assert!(world.told.is_empty(), "{age:?}");
        world.poked = true;
        world.turn();
        // A lease with time left is renewed, and one that is over is given back.
        let next = if good { Request::Renew } else { Request::Attempt };
        assert_eq!(world.asking.map(|asking| asking.0), Some(next), "{age:?}");
        assert_eq!(world.leaving.is_some(), !good, "{age:?}");
        world.finish();
    }
}

#[test]
fn without_a_token_the_next_in_line_waits_for_a_renewal() {
    let mut world = held(1, false, 1, 64, ms(20));
    world.release(0);
    world.turn();
    assert!(world.told.is_empty());
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew));
    world.answer(Some((1, false)), true);
    assert!(matches!(world.read(0), Verdict::Granted(2)));
    world.finish();
}

#[test]
fn tokens_are_asked_for_while_the_holder_works() {
    let mut world = held(1, false, 1, 64, ms(20));
    world.turn();
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew));
    world.answer(Some((5, false)), true);
    world.release(0);
    assert!(matches!(world.read(0), Verdict::Granted(2)), "without any wait for the store");
    world.finish();
}

#[test]
fn a_claim_whose_tokens_are_used_up_is_given_back_and_opened_anew_at_once() {
    let mut world = held(3, false, 8, 64, ms(20));
    world.turn();
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew), "for tokens");
    world.answer(Some((0, false)), true);
    let begun = world.now;
    for token in [2, 3] {
        world.release(0);
        world.turn();
        assert!(matches!(world.read(0), Verdict::Granted(given) if given == token), "{token}");
        assert_eq!((world.asking, world.leaving), (None, None), "nothing more is to be had");
    }
    world.release(0);
    world.turn();
    assert!(world.leaving.is_some() && world.told.is_empty());
    assert_eq!(world.asking, Some((Request::Attempt, begun)), "without any pause");
    world.answer(Some((2, false)), true);
    assert!(matches!(world.read(0), Verdict::Granted(4)));
    world.finish();
}

#[test]
fn a_claim_that_is_used_up_does_not_linger() {
    for tokens in [1, 2] {
        let mut world = World::new();
        world.enter(Ask { linger: ms(50), ..world.ask(ms(1_000)) }, MAX);
        world.turn();
        world.answer(Some((tokens, false)), true);
        world.turn();
        world.answer(Some((0, false)), true);
        world.read(0);
        world.release(0);
        world.turn();
        assert_eq!(world.leaving.is_some(), tokens == 1, "{tokens} tokens");
        world.finish();
    }
}

#[test]
fn one_that_wants_more_replicas_than_the_claim_has_is_served_by_a_new_claim() {
    for (has, wants, passed_on) in [(0, 1, false), (1, 2, false), (2, 1, true), (1, 0, true)] {
        let ask = |world: &World, count| Ask {
            terms: replicated(LEASE, count, ms(1)),
            ..world.ask(ms(1_000))
        };
        let mut world = World::new();
        world.enter(ask(&world, has), MAX);
        world.turn();
        world.answer(Some((5, false)), true);
        world.turn();
        world.read(0);
        world.enter(ask(&world, wants), MAX);
        world.turn();
        world.answer(Some((5, false)), true);
        world.release(0);
        world.turn();
        assert_eq!(world.told.len(), usize::from(passed_on), "{has} {wants}");
        assert_eq!(world.leaving.is_some(), !passed_on, "{has} {wants}");
        world.finish();
    }
}

#[test]
fn a_claim_whose_opener_has_left_is_not_given_to_one_that_wants_more_replicas() {
    let mut world = World::new();
    world.enter(world.ask(ms(1_000)), MAX);
    world.turn();
    world.enter(wants(&world, 1, ms(1)), MAX);
    world.cancel(0);
    world.answer(Some((5, false)), true);
    world.turn();
    assert!(world.told.is_empty() && world.leaving.is_some());
    world.finish();
}

/// One of 2 wanted replicas acknowledged, within 9 ms.
fn not_replicated(world: &mut World) {
    let found = NotReplicated { wanted: 2, acknowledged: 1, timeout: ms(9) };
    world.answer_attempt(Err(Fault::not_replicated(found)));
}

fn wants(world: &World, count: u32, timeout: Duration) -> Ask {
    Ask { terms: replicated(LEASE, count, timeout), ..world.ask(ms(1_000)) }
}

#[test]
fn a_grant_that_is_not_replicated_fails_those_who_want_it_so_and_is_given_back() {
    let mut world = World::new();
    let wanted = [(2, 9), (1, 9), (2, 1), (3, 9), (2, 10)];
    for (count, timeout) in wanted {
        world.enter(wants(&world, count, ms(timeout)), MAX);
        world.turn();
    }
    world.enter(world.ask(ms(1_000)), MAX);
    not_replicated(&mut world);
    let failed: Vec<_> = world.told.iter().map(|(name, _)| *name).collect();
    assert_eq!(failed, [1, 3, 4], "by their place in line");
    for _ in failed {
        let Verdict::Unavailable(fault) = world.read(0) else { panic!("a fault") };
        let found = fault.found_of_replicas().map(|found| found.acknowledged);
        assert_eq!((found, fault.is_transient()), (Some(1), true));
    }
    world.turn();
    assert!(world.leaving.is_some());
    assert_eq!(world.asking, Some((Request::Attempt, world.now)), "anew, and without a pause");
    world.finish();
}

#[test]
fn one_without_replicas_is_served_behind_one_whose_grant_is_not_replicated() {
    let mut world = World::new();
    world.enter(wants(&world, 2, ms(9)), MAX);
    world.turn();
    world.enter(world.ask(ms(1_000)), MAX);
    not_replicated(&mut world);
    assert!(matches!(world.read(0), Verdict::Unavailable(_)));
    world.turn();
    // The store is asked on its own terms, and the one before is no excuse for a wait in vain.
    world.answer(Some((1, false)), false);
    world.advance(ms(1_000));
    assert!(matches!(world.read(0), Verdict::TimedOut(_)));
    world.finish();
}

#[test]
fn a_grant_that_is_not_replicated_is_given_back_before_those_who_come_later_are_served() {
    for leaving in [true, false] {
        let mut world = World::new();
        if leaving {
            world.enter(world.ask(ms(1_000)), MAX);
            world.turn();
            world.answer(Some((1, true)), true);
            world.read(0);
            world.release(0);
            world.turn();
            assert!(world.leaving.is_some());
        }
        world.enter(wants(&world, 2, ms(9)), MAX);
        world.turn();
        not_replicated(&mut world);
        world.read(0);
        world.enter(wants(&world, 2, ms(9)), MAX);
        world.turn();
        if leaving {
            assert_eq!(world.asking, None, "the claim of before is on its way out");
            world.left();
            world.turn();
        }
        assert!(world.leaving.is_some(), "it is given back");
        assert!(world.asking.is_some(), "and opened anew");
        world.finish();
    }
}

#[test]
fn a_grant_without_a_token_is_a_fault_and_is_given_back() {
    let mut world = World::new();
    world.enter(world.ask(ms(1_000)), MAX);
    world.turn();
    let tokens = TokenBlock::empty();
    let grant = Grant::new(tokens, LEASE);
    world.answer_attempt(Ok(Attempt::Granted(grant)));
    assert!(matches!(world.read(0), Verdict::Unavailable(fault) if !fault.is_transient()));
    world.turn();
    assert!(world.leaving.is_some());
    world.finish();
}

#[test]
fn an_idle_lease_lingers_until_its_time_or_until_wanted() {
    for wanted in [false, true] {
        let mut world = World::new();
        let ask = Ask { linger: ms(50), ..world.ask(ms(1_000)) };
        world.has_let_go(ask);
        assert!(world.leaving.is_none() && world.unanswered.is_empty());
        assert!(matches!(world.enter(ask, MAX), Entry::Granted(2)), "without the store");
        world.release(0);
        world.turn();
        if wanted {
            world.push();
            world.turn();
            world.answer(Some((10_000, true)), true);
            world.turn();
        } else {
            world.advance(ms(49));
            assert!(world.leaving.is_none());
            world.advance(ms(1));
        }
        assert!(world.leaving.is_some(), "wanted: {wanted}");
        world.finish();
    }
}

/// The store says once that somebody tried the key, or gave up waiting for it: whoever holds it then may
/// hand it on here.
#[test]
fn a_claim_that_others_have_asked_for_lingers_after_no_later_hold() {
    for change in [Change::Tried, Change::Here, Change::Elsewhere] {
        let mut world = World::new();
        let ask = Ask { linger: ms(50), ..world.ask(ms(1_000)) };
        world.enter(ask, MAX);
        world.enter(ask, MAX);
        world.turn();
        world.answer(Some((10_000, false)), true);
        world.turn();
        world.read(0);
        world.push_of(change);
        world.turn();
        if world.asking.is_some() {
            // They have gone meanwhile.
            world.answer(Some((10_000, false)), true);
            world.turn();
        }
        world.release(0);
        world.turn();
        world.read(0);
        world.release(0);
        world.turn();
        assert!(world.leaving.is_some(), "{change:?}: it does not linger");
        world.finish();
    }
}

#[test]
fn a_try_that_may_not_wait_is_refused_at_the_door_when_the_key_is_held_here() {
    let mut world = held(5, false, 0, 64, ms(20));
    let ask = Ask { terms: Terms { queues: false, ..lasting(LEASE) }, ..world.ask(ms(1_000)) };
    let (name, mut fx) = (99, Effects::none());
    let Entry::Seated(seat) = world.cohort.enter(&ask, world.now, || name, &mut fx) else {
        panic!("a seat with a verdict")
    };
    let token = crate::FencingToken::new(1);
    match world.cohort.poll(seat, world.now, |_| {}) {
        Verdict::TimedOut(by) => assert_eq!(by, BlockedBy::ThisClient { token }),
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn a_full_line_refuses_the_next() {
    let mut world = held(5, false, MAX, 64, ms(20));
    assert!(matches!(world.enter(world.ask(ms(9)), MAX), Entry::Full(MAX)));
    world.cancel(3);
    assert!(matches!(world.enter(world.ask(ms(9)), MAX), Entry::Seated(_)));
    world.finish();
}

#[test]
fn each_who_comes_says_how_long_a_line_it_joins() {
    let mut world = held(5, false, 2, 64, ms(20));
    for (most, waiting) in [(2, 2), (3, 2), (3, 3), (2, 3), (5, 3), (5, 4), (5, 5), (MAX, 5)] {
        let entry = world.enter(world.ask(ms(9)), most);
        match most > waiting {
            true => assert!(matches!(entry, Entry::Seated(_)), "{most}: {entry:?}"),
            false => {
                assert!(matches!(entry, Entry::Full(so) if so == waiting), "{most}: {entry:?}")
            }
        }
    }
    world.finish();
}

#[test]
fn a_grant_that_was_not_read_is_passed_on_when_its_waiter_goes() {
    let mut world = held(5, false, 2, 64, ms(20));
    world.release(0);
    assert_eq!((world.told.len(), world.waiting.len()), (1, 1));
    world.cancel(1);
    assert!(matches!(world.read(0), Verdict::Granted(3)));
    world.finish();
}

#[test]
fn a_grant_that_is_read_after_the_end_of_its_lease_is_too_late() {
    let mut world = held(5, false, 1, 64, ms(20));
    world.release(0);
    // The woken task comes to run only now, and before the driver.
    world.now += LEASE;
    assert!(matches!(world.read(0), Verdict::TooLate(2)));
    world.drive();
    world.finish();
}

#[test]
fn every_wait_ends_at_its_deadline_while_a_request_hangs() {
    let mut world = World::new();
    for wait in [30, 10, 20] {
        world.enter(world.ask(ms(wait)), MAX);
        world.turn();
    }
    assert!(world.asking.is_some());
    for (left, told) in [(2, 1), (1, 2), (0, 3)] {
        world.advance(ms(10));
        assert_eq!((world.waiting.len(), world.told.len()), (left, told));
    }
    world.finish();
}

#[test]
fn a_late_held_does_not_revive_a_hold() {
    let mut world = held(5, false, 0, 64, ms(20));
    world.advance(LEASE);
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew));
    assert_eq!(world.cohort.holder(), None);
    world.answer(Some((5, false)), true);
    world.turn();
    assert!(world.leaving.is_some(), "the key is given back at once");
    let cause = world.cohort.lost(1, world.now, &mut Effects::none());
    assert_eq!(cause, Some(LossReason::Expired));
    world.finish();
}

#[test]
fn a_held_that_comes_before_the_driver_saw_the_end_of_the_lease_does_not_revive_it_either() {
    let mut world = held(5, false, 0, 64, ms(20));
    world.advance(LEASE / 3);
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew));
    // The process was stopped: the answer and the end of the lease are there at once.
    world.now += LEASE;
    world.answer(Some((5, false)), true);
    assert_eq!(world.cohort.holder(), None);
    let cause = world.cohort.lost(1, world.now, &mut Effects::none());
    assert_eq!(cause, Some(LossReason::Expired));
    world.finish();
}

#[test]
fn an_orphaned_cohort_tells_its_holder_and_its_waiters() {
    let mut world = held(5, false, 2, 64, ms(20));
    let mut fx = Effects::none();
    drop(world.cohort.orphan(super::world::fault(), world.now, &mut fx));
    assert_eq!(fx.wake_more.len(), 2);
    let cause = world.cohort.lost(1, world.now, &mut Effects::none());
    assert_eq!(cause, Some(LossReason::Shutdown));
    assert!(world.cohort.retire(false));
}

/// It was not renewed meanwhile, so somebody else may have the key by now: who comes right then does
/// not have it before the store has said that it is still ours.
#[test]
fn a_claim_that_has_rested_for_long_is_confirmed_before_it_is_handed_on() {
    let mut world = World::new();
    let ask = Ask { min_hold: LEASE / 2, ..world.ask(ms(10_000)) };
    world.has_let_go(ask);
    assert!(world.leaving.is_none() && world.asking.is_none(), "it rests, and is not renewed");
    // The driver comes late.
    world.now += LEASE / 2;
    assert!(matches!(world.enter(ask, MAX), Entry::Seated(_)));
    world.turn();
    assert!(world.asking.is_some() && world.told.is_empty());
    world.answer(Some((10_000, false)), true);
    world.turn();
    assert_eq!(world.told.len(), 1);
}
