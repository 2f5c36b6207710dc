//! Several guards of one hold, and what is told of a cohort to those who ask.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{LEASE, World, lasting, ms, replicated};
use crate::backend::{Attempt, Grant, NotReplicated};

#[test]
fn the_last_of_several_guards_gives_the_hold_up() {
    let mut world = held(100, false, 1, 64, ms(20));
    let token = world.guards[0];
    for _ in 0..2 {
        assert!(world.cohort.reenter(token, Mode::Exclusive, world.now));
        world.guards.push(token);
    }
    assert!(!world.cohort.reenter(token + 1, Mode::Exclusive, world.now), "there is no such hold");
    for _ in 0..2 {
        world.release(0);
        assert!(world.told.is_empty() && world.unanswered.is_empty());
    }
    world.release(0);
    assert_eq!(world.told.len(), 1, "handed on");
    world.finish();
}

#[test]
fn a_lost_hold_is_known_until_its_last_guard_has_gone() {
    let mut world = held(100, false, 0, 64, ms(20));
    let token = world.guards[0];
    assert!(world.cohort.reenter(token, Mode::Exclusive, world.now));
    world.guards.push(token);
    world.now += LEASE;
    for guards in [2, 1] {
        assert!(!world.cohort.reenter(token, Mode::Exclusive, world.now));
        let lost = world.cohort.lost(token, world.now, &mut Effects::none());
        assert_eq!(lost, Some(LossReason::Expired), "{guards} guards");
        let mut fx = Effects::none();
        let answer = world.cohort.release(token, || None, world.now, &mut fx);
        assert!(matches!(answer, Some(ReleaseAnswer::NotHeld)));
        world.guards.pop();
    }
    assert_eq!(world.cohort.lost(token, world.now, &mut Effects::none()), None);
}

#[test]
fn a_release_after_the_lease_looks_at_the_clock_itself() {
    let mut world = held(100, false, 0, 64, ms(20));
    let token = world.guards[0];
    let lost = world.watch(0, Event::Lost);
    world.now += LEASE;
    world.release(0);
    assert_eq!((world.heard.as_slice(), world.cohort.holder()), (&[lost][..], None));
    assert!(world.cohort.lost(token, world.now, &mut Effects::none()).is_none());
    world.poked = true;
    world.finish();
}

#[test]
fn replicas_are_those_of_the_grant() {
    for (had, wanted, lacks) in [(0, 1, true), (2, 1, false), (2, 2, false), (2, 3, true)] {
        let mut world = World::new();
        let ask = Ask { terms: replicated(LEASE, had, ms(5)), ..world.ask(ms(1_000)) };
        world.enter(ask, MAX);
        world.turn();
        world.answer(Some((9, false)), true);
        world.read(0);
        let (token, wants) = (world.guards[0], Replicas { count: wanted, timeout: ms(9) });
        let timeout = if had == 0 { ms(0) } else { ms(5) };
        let found = lacks.then_some(NotReplicated { wanted, acknowledged: had, timeout });
        assert_eq!(world.cohort.lacks(token, wants), found, "{had} and {wanted}");
        assert_eq!(world.cohort.lacks(token + 1, wants), None, "no hold of that token");
        world.finish();
    }
}

#[test]
fn what_is_counted() {
    let mut world = held(100, false, 2, 64, ms(20));
    world.release(0);
    world.read(0);
    world.push();
    world.turn();
    world.answer(Some((100, false)), true);
    world.advance(LEASE);
    let Counters { acquired, handoffs_local, handoffs_remote, timeouts, refused, lost, renewals } =
        world.cohort.counters();
    assert_eq!((acquired, handoffs_local, handoffs_remote), (2, 1, 0));
    assert_eq!((timeouts, refused, lost, renewals), (0, 0, 1, 1));
    world.finish();
}

#[test]
fn who_waits_is_told_how_many_the_store_sees_ahead() {
    let mut world = World::new();
    world.enter(world.ask(ms(70)), MAX);
    world.turn();
    world.answer_attempt(Ok(Attempt::Blocked { ahead: Some(3), recheck: ms(500) }));
    world.turn();
    world.advance(ms(70));
    let verdict = world.read(0);
    let Verdict::TimedOut(BlockedBy::Others { ahead }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(ahead, Some(3));
    world.finish();
}

#[test]
fn all_who_wait_or_watch_can_be_woken() {
    let mut world = held(100, false, 2, 64, ms(20));
    let mut all: Vec<_> = world.waiting.iter().map(|(name, ..)| *name).collect();
    all.push(world.watch(0, Event::Lost));
    assert_eq!(world.cohort.wakers(), all);
    world.finish();
}

#[test]
fn a_key_is_forsaken_while_nobody_here_wants_or_holds_it() {
    let mut world = World::new();
    assert!(world.cohort.is_forsaken());
    world.enter(world.ask(ms(1_000)), MAX);
    world.turn();
    assert!(!world.cohort.is_forsaken(), "somebody waits");
    world.answer(Some((9, false)), true);
    world.read(0);
    assert!(!world.cohort.is_forsaken(), "somebody holds it");
    world.release(0);
    world.turn();
    assert!(world.cohort.is_forsaken() && world.leaving.is_some(), "though it is given back");
    world.finish();
}

/// So that a store whose tokens are a measure of time knows how many are of use.
#[test]
fn a_claim_to_share_is_opened_for_as_many_as_the_last_one_let_in() {
    let World { mut cohort, now, .. } = World::new();
    let ask = World::new().ask(ms(1_000));
    for (mode, likely) in [(Mode::Shared, 0), (Mode::Shared, 3), (Mode::Exclusive, 0)] {
        let terms = Terms { mode, ..lasting(LEASE) };
        let ask = Ask { terms, ..ask };
        let mut fx = Effects::none();
        assert!(matches!(cohort.enter(&ask, now, || 1, &mut fx), Entry::Seated(_)));
        let Step::Open(opened) = cohort.step(0, now, false, false, &mut fx) else { panic!() };
        assert_eq!((opened.mode, opened.tokens_likely), (mode, likely));
        let grant = Grant::new(TokenBlock::new(1, 8), LEASE);
        cohort.attempted(0, now, Ok(Attempt::Granted(grant)), now, |_| ms(1), &mut fx);
        for further in 2..=3 {
            let entry = cohort.enter(&ask, now, || further, &mut fx);
            assert_eq!(matches!(entry, Entry::Granted(_)), mode == Mode::Shared);
        }
        for token in 1..=3 {
            cohort.release(token, || Some(1), now, &mut fx);
        }
        let step = cohort.step(0, now, false, false, &mut fx);
        assert!(matches!(step, Step::Leave { .. }), "{step:?}");
    }
}
