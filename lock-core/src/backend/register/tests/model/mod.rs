//! The modes of a key, explored: readers, writers, a crash, and messages that come late.
//!
//! [`stateright`] visits every state of a small system: the real [`Register`], and three parties
//! with the real [`LeaseClock`](crate::proto::lease::LeaseClock). Each wants the key once or
//! twice, in a mode of its own, and may renew it, make itself a reader, or give up at any time.
//! Requests, replies and pushes arrive in any order and as late as you like; how many are lost, or
//! arrive twice, and how many parties die is bounded by [`Rules`]. Time goes in seconds. A lease
//! has two of them, and the clocks of the parties are slow by one percent.
//!
//! # The protocol
//!
//! 1. Who wants the key opens a claim and sends an *attempt*. It is granted, or told that others
//!    are before it, and with that the last token that was given. It asks again each second; who
//!    does not for two of them has left the line.
//! 2. A turn of the register may grant the key to those in line. Each is sent a *push* with its
//!    token.
//! 3. A grant is good for a lease from when its request was *sent*, less a margin, by the party's
//!    own clock. A pushed one counts from the last attempt that was answered, and only if its token
//!    is above the one told with that.
//! 4. Who gives up, or finds its time over, ends its claim and sends a *withdrawal*. Whatever
//!    arrives for that claim afterwards is thrown away; the next one has another name.
//! 5. A writer that downgrades counts as a reader from the moment it asks.
//!
//! Each rule has a switch, and for each switch there is a test which shows that a property fails
//! without it. What the refutations teach, beside that the rules are needed:
//!
//! - A push needs both of its conditions. A claim whose grant ran out unheard asks again and is in
//!   line anew, so by its send instant alone the late push looks like a young one.
//! - A downgrade that gives the key back and asks again is no downgrade: a writer gets in between
//!   while the reader-to-be believes to hold.
//! - Nobody is stuck behind a dead waiter, whether or not its place in line has an end: it costs one
//!   lease. That places end is for those who have several dead before them.
//!
//! # Size
//!
//! 195,000 states, up to 31 steps deep, where nothing is lost and nobody comes back; the others are
//! visited as far as the number of steps says. The last two parties want the same, and a state is
//! one with its mirror image.
//!
//! # What it leaves out
//!
//! Permits (the rule is the same one, and the cards in [`cards`](super::cards) have them), the
//! cohort inside of a party (see `cohort/tests/fleet.rs`), and streams of newcomers: that none
//! overtakes the line, and that all who live have the key soon once all goes well, is looked at in
//! each state.

mod world;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use crate::backend::Mode;
use world::{PARTIES, Step, World};

const TOGETHER: &str = "no writer holds beside anybody";
const ENDED: &str = "no claim that has ended holds the key";
const GROWS: &str = "a writer's token is above all before it, and a reader's above all writers'";
const ORDER: &str = "nobody passes one that waits";
const GRANTED: &str = "nobody waits for a key that it could have";
const SOON: &str = "who waits and lives has the key soon, once all goes well";

const SOME_WRITER: [Mode; PARTIES] = [Mode::Exclusive, Mode::Shared, Mode::Shared];
const MORE_WRITERS: [Mode; PARTIES] = [Mode::Shared, Mode::Exclusive, Mode::Exclusive];

/// The rules of the system, its size, and what may go wrong.
#[derive(Clone, Debug)]
struct Rules {
    /// The mode that each party wants, and how often.
    modes: [Mode; PARTIES],
    claims: [u8; PARTIES],
    /// The number of seconds that it is looked at.
    seconds: u8,
    renewals: u8,
    downgrades: u8,
    /// The number of messages that are lost, and of those that arrive twice.
    losses: u8,
    doubles: u8,
    crashes: u8,

    /// Whether a lease counts from the send, not from the answer.
    counts_from_send: bool,
    /// Whether its holder gives it up a margin early.
    has_margin: bool,
    /// Whether a claim that has ended hears nothing more.
    ended_is_ended: bool,
    /// Whether a pushed grant counts from the last answered attempt, not from its arrival.
    pushed_from_send: bool,
    /// Whether its token is compared with what that attempt was told.
    pushed_is_new: bool,
    /// Whether a writer that downgrades counts as a reader at once.
    reader_at_once: bool,
    /// Whether a downgrade keeps the key.
    keeps_place: bool,
    /// Whether a claim that gives the key back serves those in line.
    serves_line: bool,
    /// Whether a claim that waits asks again, as pushes get lost.
    asks_again: bool,
    /// Whether a newcomer stands behind those in line.
    stands_behind: bool,
    /// Whether the last token of a register that is forgotten is kept.
    keeps_last: bool,
}

const ALL: Rules = Rules {
    modes: SOME_WRITER,
    claims: [1, 1, 1],
    seconds: 2,
    renewals: 0,
    downgrades: 0,
    losses: 0,
    doubles: 0,
    crashes: 0,
    counts_from_send: true,
    has_margin: true,
    ended_is_ended: true,
    pushed_from_send: true,
    pushed_is_new: true,
    reader_at_once: true,
    keeps_place: true,
    serves_line: true,
    asks_again: true,
    stands_behind: true,
    keeps_last: true,
};

impl Model for Rules {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(self, steps);
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        world.does(self, step);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(TOGETHER, |_, world: &World| world.is_compatible()),
            Property::always(ENDED, |_, world: &World| !world.broken.revived),
            Property::always(GROWS, |_, world: &World| !world.broken.tokens),
            Property::always(ORDER, |_, world: &World| !world.broken.order),
            Property::always(GRANTED, |_, world: &World| !world.broken.left_alone),
            Property::always(SOON, |rules: &Rules, world: &World| world.ends_well(rules)),
            Property::sometimes("a hand-over", |_, world: &World| world.seen.writer_after),
            Property::sometimes("a push that counts", |_, world: &World| world.seen.pushed),
        ];
        if self.modes == SOME_WRITER {
            all.push(Property::sometimes("two readers", |_, world: &World| {
                world.believers().filter(|mode| *mode == Mode::Shared).count() == 2
            }));
        }
        if self.downgrades > 0 {
            all.push(Property::sometimes(
                "a reader beside who was a writer",
                |_, world: &World| world.seen.beside_downgraded,
            ));
        }
        all
    }
}

/// The nearest states, which the first tier of the tests has the time for.
const STATES_NEAR: usize = 40_000;

/// Visits every state that is so many steps away: all that must hold does, all that must be possible
/// is. Without `TESTS_ALL`, which `./tests/run --all` sets, the nearest alone: all that must hold
/// does in these.
fn holds(rules: Rules, steps: usize) {
    let is_whole = std::env::var_os("TESTS_ALL").is_some();
    let near = if is_whole { usize::MAX } else { STATES_NEAR };
    let checker = rules.clone().checker().target_max_depth(steps);
    let checker = checker.target_state_count(near);
    let checker = checker.spawn_bfs().join();
    println!("{} states, {} deep", checker.unique_state_count(), checker.max_depth());
    if is_whole {
        checker.assert_properties();
    } else {
        let always = |property: &Property<_>| property.expectation == Expectation::Always;
        for property in rules.properties().into_iter().filter(always) {
            checker.assert_no_discovery(property.name);
        }
    }
}

/// Visits states, the nearest first, until `property` is found to fail.
fn refuted(rules: Rules, property: &'static str) {
    let found = HasDiscoveries::AllOf([property].into());
    let checker = rules.checker().finish_when(found).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_any_discovery(property);
}

#[test]
fn no_writer_is_beside_anybody_whatever_comes_late() {
    holds(ALL, 99);
}

#[test]
fn nor_where_the_writer_comes_back() {
    holds(Rules { claims: [2, 1, 1], ..ALL }, 12);
}

#[test]
fn nor_where_messages_are_lost_and_come_twice() {
    holds(Rules { losses: 1, doubles: 1, ..ALL }, 11);
}

#[test]
fn nor_where_a_party_dies() {
    holds(Rules { crashes: 1, seconds: 3, ..ALL }, 13);
}

#[test]
fn nor_while_leases_are_renewed() {
    holds(Rules { renewals: 1, seconds: 3, ..ALL }, 13);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    holds(Rules { downgrades: 1, ..ALL }, 15);
    holds(Rules { downgrades: 1, modes: MORE_WRITERS, ..ALL }, 15);
}

#[test]
fn a_lease_that_counts_from_the_answer_is_refuted() {
    refuted(Rules { counts_from_send: false, ..ALL }, TOGETHER);
}

#[test]
fn a_lease_without_a_margin_is_refuted() {
    refuted(Rules { has_margin: false, ..ALL }, TOGETHER);
}

#[test]
fn a_claim_that_hears_what_was_for_the_one_before_is_refuted() {
    let rules = Rules { ended_is_ended: false, claims: [2, 1, 1], ..ALL };
    refuted(rules.clone(), ENDED);
    refuted(rules, TOGETHER);
}

#[test]
fn a_push_that_counts_from_its_arrival_is_refuted() {
    refuted(Rules { pushed_from_send: false, ..ALL }, TOGETHER);
}

#[test]
fn a_push_of_a_grant_that_ran_out_is_refuted() {
    refuted(Rules { pushed_is_new: false, seconds: 3, claims: [1, 2, 0], ..ALL }, TOGETHER);
}

#[test]
fn a_writer_that_downgrades_and_goes_on_as_one_until_the_answer_is_refuted() {
    refuted(Rules { reader_at_once: false, downgrades: 1, ..ALL }, TOGETHER);
}

#[test]
fn a_downgrade_that_gives_the_key_back_first_is_refuted() {
    let modes = MORE_WRITERS;
    refuted(Rules { keeps_place: false, downgrades: 1, modes, ..ALL }, TOGETHER);
}

#[test]
fn a_release_that_leaves_the_line_alone_is_refuted() {
    refuted(Rules { serves_line: false, ..ALL }, GRANTED);
}

#[test]
fn waiters_that_rely_on_pushes_are_refuted() {
    refuted(Rules { asks_again: false, losses: 1, ..ALL }, SOON);
}

#[test]
fn readers_that_join_readers_past_a_writer_are_refuted() {
    refuted(Rules { stands_behind: false, ..ALL }, ORDER);
}

#[test]
fn tokens_that_are_forgotten_with_an_idle_key_are_refuted() {
    refuted(Rules { keeps_last: false, ..ALL }, GROWS);
}
