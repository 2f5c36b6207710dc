//! Another server takes the place of the one that was asked.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{LEASE, Request, World, ms};
use crate::backend::Change;

fn renewing(world: &World) -> bool {
    matches!(world.asking, Some((Request::Renew, at)) if at == world.now)
}

#[test]
fn one_that_waits_asks_the_next_server_at_once_whatever_the_last_one_failed() {
    for by_push in [true, false] {
        let mut world = World::new();
        world.enter(world.ask(ms(10_000)), MAX);
        world.turn();
        for _ in 0..12 {
            world.answer(None, false);
            world.turn();
            assert_eq!(world.asking, None, "it pauses");
            world.advance(ms(if by_push { 15 } else { 30 }));
            if by_push {
                world.push();
                world.turn();
                assert_eq!(world.asking, None, "whatever is pushed");
                world.advance(ms(15));
            }
        }
        if by_push {
            world.answer(None, false);
            world.turn();
            world.push_of(Change::Elsewhere);
        } else {
            world.supersede();
        }
        world.turn();
        assert_eq!(world.asking, Some((Request::Attempt, world.now)), "by push: {by_push}");
        assert_eq!(world.cohort.more.as_ref().map_or(0, |more| more.failures), 0);
        world.finish();
    }
}

#[test]
fn a_holder_renews_at_the_next_server_at_once() {
    for by_push in [true, false] {
        let mut world = held(100, false, 0, 64, ms(20));
        world.advance(LEASE / 3);
        if by_push {
            world.answer(None, false);
            world.turn();
            world.advance(ms(1));
            world.push();
            world.turn();
            assert_eq!(world.asking, None, "it pauses, whatever is pushed");
            world.push_of(Change::Elsewhere);
        } else {
            world.supersede();
        }
        world.turn();
        assert!(renewing(&world), "by push: {by_push}");
        world.answer(Some((100, false)), true);
        world.turn();
        assert!(world.cohort.held_until(world.guards[0], world.now).is_some());
        world.finish();
    }
}

#[test]
fn a_claim_is_handed_on_here_only_once_the_next_server_has_renewed_it() {
    for by_push in [true, false] {
        for good in [true, false] {
            let mut world = held(100, false, 1, 64, ms(20));
            if by_push {
                world.push_of(Change::Elsewhere);
            } else {
                world.advance(LEASE / 3);
                world.supersede();
            }
            world.turn();
            assert!(renewing(&world));
            world.release(0);
            world.turn();
            assert!(world.told.is_empty(), "the next server may have granted it to another");
            world.answer(Some((100, false)), good);
            world.turn();
            assert_eq!(world.told.len(), usize::from(good));
            world.finish();
        }
    }
}

#[test]
fn an_idle_claim_is_taken_only_once_the_next_server_has_renewed_it() {
    let mut world = World::new();
    let ask = Ask { linger: ms(50), ..world.ask(ms(1_000)) };
    world.has_let_go(ask);
    world.push_of(Change::Elsewhere);
    world.turn();
    assert!(renewing(&world));
    assert!(matches!(world.enter(ask, MAX), Entry::Seated(_)));
    world.turn();
    assert!(world.told.is_empty());
    world.answer(Some((10_000, false)), true);
    assert!(matches!(world.read(0), Verdict::Granted(_)));
    world.finish();
}

#[test]
fn a_store_that_goes_on_to_speak_of_another_server_is_left_alone_for_a_pause() {
    let mut world = World::new();
    world.enter(world.ask(ms(10_000)), MAX);
    world.turn();
    for _ in 0..3 {
        world.supersede();
        world.turn();
        assert_eq!(world.asking, Some((Request::Attempt, world.now)), "the first time in a row");
        for _ in 0..3 {
            world.supersede();
            world.turn();
            assert_eq!(world.asking, None, "the store may know no better the next time");
            world.advance(ms(30));
        }
        world.answer(Some((100, false)), false);
        world.turn();
        world.advance(ms(50));
    }
    world.finish();

    let mut world = held(100, false, 1, 64, ms(20));
    world.advance(LEASE / 3);
    world.supersede();
    world.turn();
    assert!(renewing(&world));
    world.supersede();
    world.turn();
    assert_eq!(world.asking, None);
    world.release(0);
    world.turn();
    assert!(world.told.is_empty(), "it was renewed nowhere yet");
    world.advance(LEASE / 9);
    assert!(renewing(&world));
    world.answer(Some((100, false)), true);
    world.turn();
    assert_eq!(world.told.len(), 1);
    world.finish();
}
