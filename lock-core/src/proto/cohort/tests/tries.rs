//! The answers to tries that must not stand in line, when several ask at once.

use super::super::*;
use super::world::{LEASE, ask, fault, ms};
use crate::backend::{Attempt, Grant};
use crate::ground::clock;

/// A cohort, the seats in order of arrival, and what the store has given away.
struct Tries {
    cohort: Cohort<u32, u32>,
    now: Instant,
    seats: Vec<SeatId>,
    token: u64,
}

impl Tries {
    fn new() -> Self {
        Self { cohort: Cohort::new(), now: clock::now(), seats: Vec::new(), token: 0 }
    }

    fn enter(&mut self, mode: Mode, queues: bool) {
        let mut ask = ask(self.now, ms(2_000));
        ask.terms = Terms { mode, queues, ..ask.terms };
        let entry = self.cohort.enter(&ask, self.now, || 0, &mut Effects::none());
        let Entry::Seated(seat) = entry else { panic!("{entry:?}") };
        self.seats.push(seat);
    }

    /// As a driver does, all requests being under way; how many claims were opened.
    fn drive(&mut self) -> usize {
        let (mut lane, mut opened, mut leaves) = (0, 0, false);
        loop {
            loop {
                let asking =
                    matches!(self.cohort.place(lane), Some(Phase::Asking(it)) if !it.answered);
                let mut fx = Effects::none();
                match self.cohort.step(lane, self.now, asking, leaves, &mut fx) {
                    Step::Open(_) => opened += 1,
                    Step::Leave { .. } => leaves = true,
                    Step::Forget | Step::Inspect => {}
                    Step::Wait { .. } | Step::Stop => break,
                    step => panic!("{step:?}"),
                }
            }
            match self.cohort.next_lane(self.now, leaves) {
                Some(next) => lane = next,
                None => return opened,
            }
        }
    }

    fn answer(&mut self, lane: usize, sent: Instant, granted: bool) {
        self.token += 1;
        let answer = match granted {
            true => Attempt::Granted(Grant::new(TokenBlock::new(self.token, self.token), LEASE)),
            false => Attempt::Blocked { ahead: Some(1), recheck: ms(500) },
        };
        let pause = |_| panic!("it was answered");
        self.cohort.attempted(lane, sent, Ok(answer), self.now, pause, &mut Effects::none());
    }

    /// The seats in the order of arrival: `None` for one that waits, else whether it was granted.
    fn told(&self) -> Vec<Option<bool>> {
        let state = |seat: &SeatId| match &self.cohort.line.get(*seat).expect("unread").state {
            SeatState::Waiting(_) => None,
            SeatState::Over(verdict) => Some(matches!(verdict, Verdict::Granted(_))),
        };
        self.seats.iter().map(state).collect()
    }
}

const OF: Mode = Mode::Permit { of: 2 };

/// A driver reads the clock once for several answers, and another thread comes meanwhile.
#[test]
fn a_try_that_comes_after_the_time_of_the_poll_has_one_claim_and_its_answer() {
    for (mode, queues) in [(Mode::Exclusive, false), (Mode::Exclusive, true), (OF, false)] {
        let mut tries = Tries::new();
        let of_the_poll = tries.now;
        tries.now += ms(3);
        tries.enter(mode, false);
        // One that read the clock before, and comes behind it.
        tries.now -= ms(1);
        tries.enter(mode, queues);
        tries.now = of_the_poll;
        let mut opened = tries.drive();
        for round in 0..100 {
            tries.answer(round % 2, of_the_poll, false);
            opened += tries.drive();
        }
        assert_eq!(tries.told()[0], Some(false), "{mode:?}: nobody told it");
        assert!(opened <= 2, "{mode:?}: {opened} claims were opened");
    }
}

#[test]
fn a_claim_that_is_blocked_ends_one_try_and_not_those_whose_claims_are_under_way() {
    for granted in [true, false] {
        let mut tries = Tries::new();
        (0..2).for_each(|_| tries.enter(OF, false));
        assert_eq!(tries.drive(), 2);
        let sent = tries.now;
        tries.answer(0, sent, false);
        assert_eq!(tries.told(), [None, Some(false)], "one is under way still");
        assert_eq!(tries.drive(), 0);
        tries.answer(1, sent, granted);
        assert_eq!(tries.told(), [Some(granted), Some(false)]);
    }
}

#[test]
fn a_claim_that_is_granted_ends_no_try_whose_claim_is_under_way() {
    for granted in [true, false] {
        let mut tries = Tries::new();
        (0..2).for_each(|_| tries.enter(OF, false));
        tries.drive();
        let sent = tries.now;
        tries.answer(1, sent, true);
        assert_eq!(tries.told(), [Some(true), None]);
        tries.answer(0, sent, granted);
        assert_eq!(tries.told(), [Some(true), Some(granted)]);
    }
}

#[test]
fn what_was_asked_for_before_a_try_came_does_not_end_it() {
    for mode in [Mode::Exclusive, Mode::Shared, OF] {
        let mut tries = Tries::new();
        tries.enter(mode, false);
        assert_eq!(tries.drive(), 1);
        let sent = tries.now;
        tries.now += ms(1);
        tries.enter(mode, false);
        tries.answer(0, sent, false);
        // That of a permit was not opened yet.
        assert_eq!(tries.told(), [Some(false), None], "{mode:?}");
        assert_eq!(tries.drive(), 1, "{mode:?}: it asks for itself");
        let (sent, lane) = (tries.now, 0);
        tries.answer(lane, sent, true);
        assert_eq!(tries.told(), [Some(false), Some(true)], "{mode:?}");
    }
}

#[test]
fn a_try_that_finds_no_claim_free_to_ask_with_is_told_so() {
    let mut tries = Tries::new();
    tries.enter(Mode::Exclusive, true);
    tries.drive();
    let sent = tries.now;
    // The one before it may be refused, or be gone, by then.
    let gone = tries.cohort.cancel(tries.seats.remove(0), tries.now, &mut Effects::none());
    assert!(gone.is_some(), "it waited");
    tries.now += ms(1);
    tries.enter(Mode::Exclusive, false);
    tries.answer(0, sent, false);
    assert_eq!(tries.told(), [Some(false)], "the claim stands in line");
}

#[test]
fn a_store_that_does_not_answer_ends_all_tries() {
    let mut tries = Tries::new();
    (0..2).for_each(|_| tries.enter(OF, false));
    tries.drive();
    let (sent, mut fx) = (tries.now, Effects::none());
    tries.cohort.attempted(0, sent, Err(fault()), tries.now, |_| ms(30), &mut fx);
    assert_eq!(tries.told(), [Some(false), Some(false)]);
}
