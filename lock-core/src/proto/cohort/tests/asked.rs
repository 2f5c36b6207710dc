//! A lease that was asked for is had.

use super::super::*;
use super::tables::{MAX, held};
use super::world::{LEASE, Request, World, lasting, ms};
use crate::proto::lease::margin;

fn leased(world: &World, lease: Duration) -> Ask {
    Ask { terms: lasting(lease), ..world.ask(ms(60_000)) }
}

/// A world in which somebody holds the key by a claim of this lease, and will keep it idle for
/// `linger`.
fn held_by(lease: Duration, linger: Duration) -> World {
    let mut world = World::new();
    world.enter(Ask { linger, ..leased(&world, lease) }, MAX);
    world.turn();
    world.answer(Some((100_000, false)), true);
    world.turn();
    world.read(0);
    world
}

fn renewing(world: &World) -> bool {
    matches!(world.asking, Some((Request::Renew, at)) if at == world.now)
}

const TABLE: [(u64, u64, bool); 5] = [
    (200, 10_000, false),
    (899, 900, false),
    (900, 900, true),
    (900, 300, true),
    (900, 901, false),
];

#[test]
fn one_that_wants_a_longer_lease_than_the_claim_has_is_served_by_a_new_claim() {
    for (has, wants, passed_on) in TABLE {
        let mut world = held_by(ms(has), ms(0));
        world.enter(leased(&world, ms(wants)), MAX);
        world.release(0);
        world.turn();
        assert_eq!(world.told.len(), usize::from(passed_on), "{has} {wants}");
        assert_eq!(world.leaving.is_some(), !passed_on, "{has} {wants}");
        let opened = if passed_on { vec![ms(has)] } else { vec![ms(has), ms(wants)] };
        assert_eq!(world.opened, opened, "at once, and on its terms");
        world.finish();
    }
}

#[test]
fn an_idle_claim_that_lingers_is_not_taken_by_one_that_wants_a_longer_lease() {
    for queues in [true, false] {
        for (has, wants, taken) in TABLE {
            let mut world = held_by(ms(has), ms(5_000));
            world.release(0);
            world.turn();
            assert!(world.leaving.is_none() && world.unanswered.is_empty(), "it lingers");
            let terms = Terms { queues, ..lasting(ms(wants)) };
            let entry = world.enter(Ask { terms, ..leased(&world, ms(wants)) }, MAX);
            assert_eq!(matches!(entry, Entry::Granted(_)), taken, "{has} {wants}");
            world.turn();
            assert_eq!(world.leaving.is_some(), !taken, "{has} {wants}");
            // A try that may not wait must not find the place of our own former claim taken.
            world.left();
            world.turn();
            assert_eq!(world.opened.len(), 1 + usize::from(!taken), "{has} {wants}");
            world.finish();
            assert_eq!(world.timed_out, 0, "{has} {wants}");
        }
    }
}

#[test]
fn a_claim_whose_opener_has_left_is_not_given_to_one_that_wants_a_longer_lease() {
    for (has, wants, given) in TABLE {
        let mut world = World::new();
        world.enter(leased(&world, ms(has)), MAX);
        world.turn();
        world.enter(leased(&world, ms(wants)), MAX);
        world.cancel(0);
        world.answer(Some((5, false)), true);
        world.turn();
        assert_eq!(world.told.len(), usize::from(given), "{has} {wants}");
        assert_eq!(world.leaving.is_some(), !given, "{has} {wants}");
        world.finish();
    }
}

#[test]
fn one_claim_of_the_longest_lease_serves_all_who_want_less() {
    let mut world = held_by(ms(300), ms(0));
    for lease in [900, 300, 900, 600] {
        world.enter(leased(&world, ms(lease)), MAX);
    }
    for _ in 0..4 {
        world.release(0);
        world.turn();
        world.answer(Some((100_000, false)), true);
        world.turn();
        world.read(0);
    }
    assert_eq!(world.opened, [ms(300), ms(900)]);
    world.finish();
}

#[test]
fn a_claim_with_less_than_half_of_what_is_asked_for_left_is_renewed_before_it_is_handed_on() {
    let end = LEASE - margin(LEASE);
    // How long a lease is asked for, and how much is left of that of the claim.
    let table = [(900, 450, true), (900, 449, false), (300, 150, true), (300, 149, false)];
    for (asked, left, handed) in table {
        for idle in [false, true] {
            let mut world = held_by(LEASE, ms(5_000));
            if idle {
                world.release(0);
                world.turn();
            }
            // The process is stopped; the driver's timer is due when it goes on.
            world.now += end - ms(left);
            world.poked = true;
            if !idle {
                world.enter(leased(&world, ms(asked)), MAX);
                world.release(0);
                assert_eq!(world.told.len(), usize::from(handed), "{asked} {left}");
            } else {
                let entry = world.enter(leased(&world, ms(asked)), MAX);
                assert_eq!(matches!(entry, Entry::Granted(_)), handed, "{asked} {left}");
            }
            world.turn();
            assert!(renewing(&world), "{asked} {left}");
            world.answer(Some((100_000, false)), true);
            assert_eq!(world.waiting.len(), 0, "and handed on at the answer: {asked} {left}");
            assert_eq!((world.opened.len(), &world.leaving), (1, &None));
            world.finish();
        }
    }
}

#[test]
fn a_store_that_does_not_renew_ends_a_claim_at_its_lease_and_it_is_opened_anew() {
    let mut world = held(100, false, 1, 64, ms(20));
    let begun = world.now;
    // A renewal fails at a third and each ninth after it.
    for ninth in 3..9 {
        world.advance(begun + LEASE / 9 * ninth - world.now);
        assert!(renewing(&world), "{ninth}");
        if ninth == 6 {
            world.release(0);
        }
        world.answer(None, false);
        world.turn();
        assert!(world.told.is_empty() && world.asking.is_none(), "{ninth}: it pauses");
    }
    world.advance(begun + LEASE - margin(LEASE) - world.now);
    assert!(world.leaving.is_some());
    assert_eq!(world.asking, Some((Request::Attempt, world.now)), "anew, and without a pause");
    assert_eq!(world.opened.len(), 2);
    world.answer(Some((100, false)), true);
    assert!(matches!(world.read(0), Verdict::Granted(_)));
    world.finish();
}

#[test]
fn a_renewal_that_was_long_on_its_way_is_followed_by_another_before_a_hand_off() {
    let mut world = held(100, false, 1, 64, ms(20));
    world.advance(LEASE / 3);
    assert!(renewing(&world));
    world.advance(ms(500));
    world.release(0);
    world.turn();
    world.answer(Some((100, false)), true);
    world.turn();
    assert!(world.told.is_empty() && renewing(&world), "less than half of it is left");
    world.answer(Some((100, false)), true);
    assert!(matches!(world.read(0), Verdict::Granted(_)));
    world.finish();
}

#[test]
fn a_store_that_never_gives_half_of_a_lease_does_not_keep_the_line_waiting() {
    let mut world = held(100, false, 1, 64, ms(20));
    world.advance(LEASE / 3);
    for handed in [false, true] {
        assert!(renewing(&world));
        // So long that of 889 ms 447 are left at the answer.
        world.advance(ms(442));
        if !handed {
            world.release(0);
        }
        world.answer(Some((100, false)), true);
        assert_eq!(world.told.len(), usize::from(handed));
        world.turn();
    }
    assert!(matches!(world.read(0), Verdict::Granted(_)), "what the store has to give");
    world.finish();
}

#[test]
fn a_pushed_grant_is_handed_on_at_once_until_its_renewal_is_due() {
    let mut world = World::new();
    // As at Redis: of a lease of 15 s it is good for 1.5 s.
    world.part = 10;
    for _ in 0..4 {
        world.enter(leased(&world, ms(15_000)), MAX);
    }
    world.turn();
    world.answer(Some((100_000, false)), true);
    world.turn();
    for _ in 0..3 {
        world.read(0);
        world.advance(ms(100));
        world.release(0);
        assert_eq!((world.told.len(), world.asking), (1, None), "without the store");
    }
    world.read(0);
    world.advance(ms(200));
    assert!(renewing(&world), "at a third of what it is good for");
    world.part = 1;
    world.answer(Some((100_000, false)), true);
    let until = world.cohort.held_until(world.guards[0], world.now).expect("held");
    assert!(until > world.now + ms(14_000));
    world.finish();
}
