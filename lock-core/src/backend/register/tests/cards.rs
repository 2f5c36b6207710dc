use std::cell::{Cell, RefCell};
use std::time::Duration;

use proptest::prelude::*;

use super::super::*;

const LEASE: Duration = Duration::from_secs(10);
const READER: Mode = Mode::Shared;
const WRITER: Mode = Mode::Exclusive;
const ONE_OF_TWO: Mode = Mode::Permit { of: 2 };

fn id(claim: u8) -> ClaimId {
    ClaimId::from_bits(claim.into())
}

/// A register with a clock and tokens of its own, and who was woken.
#[derive(Default)]
struct Desk {
    register: Register<u8>,
    now: Duration,
    minted: Cell<u64>,
    woken: RefCell<Vec<u8>>,
    is_shut: bool,
    due: Option<Duration>,
}

impl Desk {
    fn with<A>(&mut self, ask: impl FnOnce(&mut Register<u8>, &Turn<'_, u8>) -> A) -> A {
        let Self { register, now, minted, woken, is_shut, .. } = self;
        let mint = |last: Option<u64>, count: u32| {
            let first = last.unwrap_or(0).max(minted.get()) + 1;
            minted.set(first + u64::from(count) - 1);
            TokenBlock::new(first, minted.get())
        };
        let wake = |claim: &u8| woken.borrow_mut().push(*claim);
        ask(register, &Turn { now: *now, mint: &mint, wake: &wake, may_grant: !*is_shut })
    }

    fn attempt(&mut self, claim: u8, mode: Mode, joins: bool) -> Result<u32, u32> {
        let due = self.due.map(|due| self.now + due);
        let place = Place { claim: id(claim), mode, lease: LEASE, tokens_max: 3, due, with: claim };
        let stands = self.with(|register, turn| register.attempt(place, joins, turn));
        let mut owners = self.register.owners(self.now);
        match stands {
            Ok(Attempt::Granted(_)) => Ok(owners.find(|it| it.place.with == claim).unwrap().slot),
            Ok(Attempt::Blocked { ahead, .. }) => Err(ahead.unwrap()),
            Err(OtherLimit(limit)) => Err(1_000 + limit),
        }
    }

    fn joins(&mut self, claim: u8, mode: Mode) -> Result<u32, u32> {
        self.attempt(claim, mode, true)
    }

    fn takes_over(&mut self, claim: u8) {
        let (mode, lease) = (WRITER, LEASE);
        let place = Place { claim: id(claim), mode, lease, tokens_max: 3, due: None, with: claim };
        self.with(|register, turn| register.take_over(place, turn));
    }

    fn renews(&mut self, claim: u8) -> bool {
        self.with(|register, turn| register.renew(id(claim), LEASE, true, turn) != Renewal::Lost)
    }

    fn leaves(&mut self, claim: u8) -> bool {
        let left = self.with(|register, turn| register.withdraw(id(claim), turn));
        left == Withdrawal::Released
    }

    fn downgrades(&mut self, claim: u8) -> bool {
        let answer = self.with(|register, turn| register.downgrade(id(claim), LEASE, turn));
        matches!(answer, Renewal::Held(_))
    }

    fn holders(&self) -> Vec<u8> {
        self.register.owners(self.now).map(|owner| owner.place.with).collect()
    }

    fn line(&self) -> Vec<u8> {
        self.register.line().map(|place| place.with).collect()
    }

    fn woken(&self) -> Vec<u8> {
        self.woken.take()
    }
}

#[test]
fn readers_enter_together_and_the_first_writer_stops_the_line() {
    let mut desk = Desk::default();
    assert_eq!([desk.joins(1, READER), desk.joins(2, READER)], [Ok(0), Ok(0)]);
    assert_eq!(desk.joins(3, WRITER), Err(2));
    assert_eq!(desk.woken(), [1, 2], "all who hold it hear that it is wanted");
    // A reader behind a writer waits, though readers hold the key: no stream of them starves it.
    assert_eq!([desk.joins(4, READER), desk.joins(5, READER)], [Err(3), Err(4)]);
    assert_eq!(desk.joins(6, WRITER), Err(5));
    assert!(desk.leaves(1) && desk.woken().is_empty() && desk.leaves(2));
    assert_eq!((desk.holders(), desk.woken()), (vec![3], vec![3]));
    assert!(desk.leaves(3));
    assert_eq!((desk.holders(), desk.line(), desk.woken()), (vec![4, 5], vec![6], vec![4, 5]));
}

#[test]
fn permits_have_the_lowest_free_slot_and_one_limit() {
    let mut desk = Desk::default();
    assert_eq!([desk.joins(1, ONE_OF_TWO), desk.joins(2, ONE_OF_TWO)], [Ok(0), Ok(1)]);
    assert_eq!(desk.joins(3, ONE_OF_TWO), Err(2));
    assert_eq!(desk.joins(4, Mode::Permit { of: 3 }), Err(1_002));
    assert!(desk.leaves(1));
    assert_eq!((desk.joins(3, ONE_OF_TWO), desk.holders()), (Ok(0), vec![2, 3]));
    // Permits that are waited for count as in use as well.
    assert_eq!(desk.joins(5, WRITER), Err(2));
    assert_eq!(desk.joins(6, ONE_OF_TWO), Err(3));
    assert!(desk.leaves(2) && desk.leaves(3));
    assert_eq!(desk.holders(), [5]);
    assert_eq!(desk.joins(7, Mode::Permit { of: 9 }), Err(1_002));
    assert!(desk.leaves(5) && desk.leaves(6));
    assert_eq!(desk.joins(7, Mode::Permit { of: 9 }), Ok(0), "nobody uses the old limit any more");
}

#[test]
fn a_downgrade_lets_in_the_readers_behind_it_and_no_writer() {
    let mut desk = Desk::default();
    let _ = [desk.joins(1, WRITER), desk.joins(2, READER), desk.joins(3, WRITER)];
    let _ = desk.joins(4, READER);
    assert!(desk.downgrades(1) && desk.downgrades(1), "again, as the reply was lost");
    assert_eq!((desk.holders(), desk.line()), (vec![1, 2], vec![3, 4]));
    assert!(!desk.downgrades(3), "it waits");
    let mut permits = Desk::default();
    assert_eq!((permits.joins(1, ONE_OF_TWO), permits.downgrades(1)), (Ok(0), false));
}

#[test]
fn a_dead_reader_frees_its_share_at_the_end_of_its_lease() {
    let mut desk = Desk::default();
    let _ = [desk.joins(1, READER), desk.joins(2, READER), desk.joins(3, WRITER)];
    desk.now = LEASE / 2;
    assert!(desk.renews(2));
    desk.now = LEASE;
    assert_eq!((desk.joins(3, WRITER), desk.holders()), (Err(1), vec![2]));
    assert!(!desk.renews(1), "a lease that is over is not revived");
    desk.now = LEASE / 2 + LEASE;
    assert_eq!((desk.joins(3, WRITER), desk.holders()), (Ok(0), vec![3]));
}

#[test]
fn those_who_do_not_ask_again_in_time_leave_the_line_together() {
    let mut desk = Desk { due: Some(LEASE / 4), ..Desk::default() };
    let _ = [desk.joins(1, WRITER), desk.joins(2, WRITER), desk.joins(3, WRITER)];
    desk.now = LEASE / 8;
    assert_eq!(desk.joins(3, WRITER), Err(2));
    desk.now = LEASE / 4;
    assert!(desk.leaves(1));
    assert_eq!((desk.holders(), desk.line().is_empty()), (vec![3], true));
}

#[test]
fn a_try_leaves_nothing_and_passes_nobody() {
    let mut desk = Desk::default();
    let _ = [desk.joins(1, READER), desk.joins(2, WRITER)];
    assert_eq!(desk.attempt(3, READER, false), Err(2));
    assert_eq!((desk.line(), desk.leaves(3)), (vec![2], false));
}

#[test]
fn who_takes_it_over_is_ahead_of_all_who_wait_and_again_where_it_asks_again() {
    let mut desk = Desk::default();
    let _ = [desk.joins(1, READER), desk.joins(2, READER), desk.joins(3, WRITER)];
    let _ = desk.joins(4, READER);
    desk.woken();
    let last = desk.register.last();
    desk.takes_over(9);
    assert_eq!((desk.holders(), desk.line()), (vec![9], vec![3, 4]));
    assert_eq!(desk.woken(), [1, 2], "they lost it; nobody else stands elsewhere");
    let granted = desk.register.granted()[0].tokens;
    assert!(granted.first() > last);
    desk.takes_over(9);
    assert_eq!(desk.register.granted()[0].tokens, granted, "its reply was lost");
    assert!(desk.leaves(9));
    assert_eq!((desk.holders(), desk.line()), (vec![3], vec![4]));
}

#[test]
fn while_it_may_not_grant_those_who_wait_are_told_to_ask() {
    let mut desk = Desk::default();
    let _ = [desk.joins(1, READER), desk.joins(2, READER), desk.joins(3, WRITER)];
    desk.is_shut = true;
    let _ = desk.woken();
    assert!(desk.with(|register, turn| register.force_release(turn)));
    assert_eq!((desk.holders().is_empty(), desk.woken()), (true, vec![1, 2, 3]));
    desk.is_shut = false;
    assert_eq!(desk.joins(3, WRITER), Ok(0));
    assert!(!desk.leaves(1), "it was taken away");
}

#[test]
fn a_raise_is_of_those_who_hold_it_and_takes_nothing_back() {
    let mut desk = Desk::default();
    let _ = [desk.joins(1, WRITER), desk.joins(2, WRITER)];
    let (last, now) = (desk.register.last().unwrap(), desk.now);
    let mut raise = |claim, to| desk.register.raise(id(claim), to, now);
    assert_eq!([raise(2, last + 9), raise(1, last + 9), raise(1, last)], [false, true, false]);
    assert_eq!(desk.register.last(), Some(last + 9));
}

/// A deed of one claim.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Join(u8, Mode),
    Try(u8, Mode),
    Renew(u8),
    Leave(u8),
    Downgrade(u8),
    /// So many milliseconds go by.
    Pass(u64),
    Revoke,
    Force,
    /// By one whose claim has had no other deed, or this one.
    TakeOver(u8),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let mode = prop_oneof![
        3 => Just(READER),
        2 => Just(WRITER),
        2 => Just(ONE_OF_TWO),
        1 => Just(Mode::Permit { of: 1 }),
    ];
    let deed = prop_oneof![
        6 => (0_u8..8, mode.clone()).prop_map(|(claim, mode)| Deed::Join(claim, mode)),
        1 => (0_u8..8, mode).prop_map(|(claim, mode)| Deed::Try(claim, mode)),
        3 => prop_oneof![8 => 0_u8..8, 2 => 20_u8..22].prop_map(Deed::Renew),
        4 => prop_oneof![8 => 0_u8..8, 2 => 20_u8..22].prop_map(Deed::Leave),
        1 => (0_u8..8).prop_map(Deed::Downgrade),
        2 => (0_u64..12_000).prop_map(Deed::Pass),
        1 => Just(Deed::Revoke),
        1 => Just(Deed::Force),
        1 => (20_u8..22).prop_map(Deed::TakeOver),
    ];
    prop::collection::vec(deed, 1..80)
}

/// The rule again, as one would do it with cards on a table: in order of arrival, each with its
/// end if it was granted.
#[derive(Default)]
struct Cards(Vec<(u8, Mode, Option<Duration>)>);

impl Cards {
    fn tidy(&mut self, now: Duration) {
        self.0.retain(|(_, _, end)| end.is_none_or(|end| now < end));
        loop {
            let granted = self.0.iter().filter(|card| card.2.is_some());
            let modes: Vec<_> = granted.map(|card| card.1).collect();
            let Some(head) = self.0.iter_mut().find(|card| card.2.is_none()) else { return };
            let fits = match head.1 {
                Mode::Exclusive => modes.is_empty(),
                Mode::Shared => modes.iter().all(|mode| *mode == Mode::Shared),
                Mode::Permit { of } => {
                    modes.len() < of as usize && modes.iter().all(|mode| *mode == head.1)
                }
            };
            if !fits {
                return;
            }
            head.2 = Some(now + LEASE);
        }
    }

    fn get(&mut self, claim: u8) -> Option<&mut (u8, Mode, Option<Duration>)> {
        self.0.iter_mut().find(|card| card.0 == claim)
    }

    fn clashes(&self, mode: Mode) -> bool {
        let Mode::Permit { of } = mode else { return false };
        self.0.iter().any(|card| matches!(card.1, Mode::Permit { of: other } if other != of))
    }

    fn does(&mut self, deed: Deed, now: Duration) {
        self.tidy(now);
        match deed {
            Deed::Join(claim, mode) | Deed::Try(claim, mode) => {
                if self.get(claim).is_none() && !self.clashes(mode) {
                    self.0.push((claim, mode, None));
                    self.tidy(now);
                    let is_try = matches!(deed, Deed::Try(..));
                    self.0.retain(|card| !(is_try && card.0 == claim && card.2.is_none()));
                }
            }
            Deed::Renew(claim) => {
                if let Some((_, _, Some(end))) = self.get(claim) {
                    *end = now + LEASE;
                }
            }
            Deed::Leave(claim) => self.0.retain(|card| card.0 != claim),
            Deed::Downgrade(claim) => {
                if let Some((_, mode @ (Mode::Exclusive | Mode::Shared), Some(end))) =
                    self.get(claim)
                {
                    (*mode, *end) = (Mode::Shared, now + LEASE);
                }
            }
            Deed::Force => self.0.retain(|card| card.2.is_none()),
            Deed::TakeOver(claim) => {
                if self.get(claim).is_none() {
                    self.0.retain(|card| card.2.is_none());
                    self.0.insert(0, (claim, WRITER, Some(now + LEASE)));
                }
            }
            Deed::Pass(_) | Deed::Revoke => {}
        }
        self.tidy(now);
    }

    fn of(&self, granted: bool) -> Vec<u8> {
        let cards = self.0.iter().filter(|card| card.2.is_some() == granted);
        let mut claims: Vec<_> = cards.map(|card| card.0).collect();
        if granted {
            claims.sort_unstable();
        }
        claims
    }
}

proptest! {
    #[test]
    fn it_does_what_one_would_do_with_cards(deeds in deeds()) {
        let (mut desk, mut cards) = (Desk::default(), Cards::default());
        for deed in deeds {
            let before = desk.register.last();
            if let Deed::Pass(ms) = deed {
                desk.now += Duration::from_millis(ms);
            }
            cards.does(deed, desk.now);
            match deed {
                Deed::Join(claim, mode) => drop(desk.joins(claim, mode)),
                Deed::Try(claim, mode) => drop(desk.attempt(claim, mode, false)),
                Deed::Renew(claim) => drop(desk.renews(claim)),
                Deed::Leave(claim) => drop(desk.leaves(claim)),
                Deed::Downgrade(claim) => drop(desk.downgrades(claim)),
                Deed::Pass(_) => drop(desk.renews(99)),
                Deed::Revoke => drop(desk.with(|register, turn| register.request_revoke(turn))),
                Deed::Force => drop(desk.with(|register, turn| register.force_release(turn))),
                Deed::TakeOver(claim) => desk.takes_over(claim),
            }
            let mut holders = desk.holders();
            holders.sort_unstable();
            prop_assert_eq!(holders, cards.of(true), "after {:?}", deed);
            prop_assert_eq!(desk.line(), cards.of(false), "after {:?}", deed);
            // Each grant is above all before it, and permits have slots of their own.
            prop_assert!(desk.register.last() >= before);
            let owners: Vec<_> = desk.register.owners(desk.now).collect();
            for (at, owner) in owners.iter().enumerate() {
                let others = &owners[at + 1..];
                prop_assert!(others.iter().all(|it| it.tokens.first() != owner.tokens.first()));
                if let Mode::Permit { of } = owner.place.mode {
                    prop_assert!(owner.slot < of && others.iter().all(|it| it.slot != owner.slot));
                }
            }
        }
    }
}
