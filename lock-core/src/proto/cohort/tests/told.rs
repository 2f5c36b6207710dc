//! News for a holder, and what comes of it.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{LEASE, Request, World, ms};

/// The store says at the next renewal that somebody asked for the key.
fn revoke(world: &mut World) {
    world.push();
    world.turn();
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew));
    world.revoke = true;
    world.answer(Some((100, false)), true);
    world.revoke = false;
    world.turn();
}

#[test]
fn a_holder_that_is_asked_is_told_once_and_holds_on() {
    let mut world = held(100, false, 0, 64, ms(20));
    let token = world.guards[0];
    let (asked, lost) = (world.watch(0, Event::RevokeRequested), world.watch(0, Event::Lost));
    assert!(!world.cohort.is_revoke_requested(token));
    revoke(&mut world);
    assert_eq!(world.heard, [asked]);
    // The answer to a later renewal need not say so again.
    world.push();
    world.turn();
    world.answer(Some((100, false)), true);
    world.turn();
    assert!(world.cohort.is_revoke_requested(token));
    assert!(world.cohort.held_until(token, world.now).is_some() && world.leaving.is_none());
    world.advance(LEASE);
    assert_eq!(world.heard, [asked, lost], "and the watcher of the loss is there still");
    assert!(!world.cohort.is_revoke_requested(token), "a hold that is over is not asked");
    world.finish();
}

/// A waiter may be blocked, and the hold would be lost with it.
#[test]
fn what_a_renewal_waits_for_is_told_to_nobody_in_line() {
    let mut world = held(100, false, 1, 64, ms(20));
    assert!(world.cohort.head_waker().is_some());
    world.push();
    world.turn();
    assert_eq!(world.asking.map(|asking| asking.0), Some(Request::Renew));
    world.cohort.renewing(0, world.now);
    assert!(world.cohort.head_waker().is_none());
    world.answer(Some((100, false)), true);
    assert!(world.cohort.head_waker().is_some());
    world.finish();
}

#[test]
fn a_claim_that_was_asked_is_given_back_and_those_in_line_join_anew() {
    for by_grant in [false, true] {
        for waiters in [0, 1, 3] {
            let mut world = if by_grant {
                let mut world = World::new();
                world.enter(world.ask(ms(10_000)), MAX);
                world.turn();
                world.revoke = true;
                world.answer(Some((10_000, false)), true);
                world.revoke = false;
                world.read(0);
                for _ in 0..waiters {
                    world.enter(world.ask(ms(10_000)), MAX);
                }
                world
            } else {
                let mut world = held(10_000, false, waiters, 64, ms(20));
                revoke(&mut world);
                world
            };
            assert!(world.cohort.is_revoke_requested(world.guards[0]));
            world.release(0);
            world.turn();
            assert!(world.told.is_empty() && !world.unanswered.is_empty());
            assert!(world.leaving.is_some(), "{by_grant} {waiters}");
            let anew = (waiters > 0).then_some(Request::Attempt);
            assert_eq!(world.asking.map(|asking| asking.0), anew);
            world.left();
            assert!(world.unanswered.is_empty());
            if waiters > 0 {
                world.answer(Some((10_000, false)), true);
                world.read(0);
                assert!(
                    !world.cohort.is_revoke_requested(world.guards[0]),
                    "the next is not asked"
                );
            }
            world.finish();
        }
    }
}

#[test]
fn an_idle_lease_that_lingers_is_given_back_when_it_is_asked_for() {
    for while_held in [true, false] {
        let mut world = World::new();
        let ask = Ask { linger: ms(50), ..world.ask(ms(1_000)) };
        world.enter(ask, MAX);
        world.turn();
        world.answer(Some((10_000, false)), true);
        world.turn();
        world.read(0);
        if while_held {
            revoke(&mut world);
            world.release(0);
            assert!(matches!(world.enter(ask, MAX), Entry::Seated(_)), "not from the idle claim");
            world.turn();
        } else {
            world.release(0);
            world.turn();
            assert!(world.leaving.is_none());
            revoke(&mut world);
        }
        assert!(world.leaving.is_some(), "asked while held: {while_held}");
        world.finish();
    }
}

#[test]
fn a_hold_limit_of_a_claim_that_was_asked_gives_it_back() {
    let mut world = World::new();
    let ask = Ask { hold_limit: Some(ms(100)), ..world.ask(ms(10_000)) };
    world.enter(ask, MAX);
    world.turn();
    world.answer(Some((10_000, false)), true);
    world.turn();
    world.read(0);
    world.enter(ask, MAX);
    revoke(&mut world);
    world.advance(ms(100));
    assert!(world.leaving.is_some() && world.told.is_empty());
    world.finish();
}

#[test]
fn watchers_go_with_the_hold_and_with_those_who_watch() {
    for event in [Event::Lost, Event::RevokeRequested] {
        let mut world = held(100, false, 1, 64, ms(20));
        let first = world.guards[0];
        let mut number = None;
        assert_eq!(world.cohort.watch(first, event, &mut number, 98), None);
        assert_eq!(world.cohort.watch(first, event, &mut number, 99), Some(98), "not twice");
        assert_eq!(world.cohort.unwatch(first, number.expect("a number")), Some(99));
        world.watch(0, event);
        world.release(0);
        world.read(0);
        let back = world.cohort.watch(first, event, &mut None, 98);
        assert_eq!(back, Some(98), "nothing comes any more");
        world.watch(0, event);
        world.finish();
        assert!(world.heard.is_empty(), "{event:?}: a release is no event");
    }
}
