//! The register of a key: who holds it, in which mode, and who waits. For stores that keep one row
//! per key and have no line of their own: the row holds a register, and this is what its verbs do.
//! It is pure, so a store may compute a verb here and write the row by compare-and-swap.
//!
//! One rule decides: **the head of the line is granted while it is compatible with all holders, and
//! the first that is not stops the line.** So readers that stand together enter together, and a
//! stream of them starves no writer, nor a stream of writers them.
//!
//! A store that keeps a register calls, for each verb of a claim:
//!
//! - [`attempt`](Register::attempt) (or [`take_over`](Register::take_over)),
//!   [`renew`](Register::renew), [`withdraw`](Register::withdraw) or
//!   [`downgrade`](Register::downgrade), with a [`Turn`]: when it is, where tokens come from
//!   ([`reserve`]), and whom to wake.
//! - After that it forgets a register that [is idle](Register::is_idle), but for its
//!   [last token](Register::last).
//!
//! Each of them first ends the leases that are over, and last grants whom it can. `T` is what a
//! store keeps with a claim. Times count from any one instant: that of the store's clock, as no
//! other decides when a lease is over.
//!
//! ```
//! use std::time::Duration;
//!
//! use lock_core::Mode;
//! use lock_core::backend::register::{Place, Register, Turn, reserve, ticks};
//! use lock_core::backend::{Attempt, ClaimId, Withdrawal};
//!
//! // What the store's wall clock reads, in microseconds since 1970.
//! let wall_us = 1_800_000_000_000_000;
//! let turn = Turn {
//!     now: Duration::from_micros(wall_us),
//!     mint: &|last, count| reserve(last, ticks(wall_us), count),
//!     wake: &|_: &()| (),
//!     may_grant: true,
//! };
//! let place = |claim| Place {
//!     claim: ClaimId::from_bits(claim),
//!     mode: Mode::Exclusive,
//!     lease: Duration::from_secs(10),
//!     tokens_max: 1,
//!     due: None,
//!     with: (),
//! };
//! let mut register = Register::default();
//! assert!(matches!(register.attempt(place(1), true, &turn), Ok(Attempt::Granted(_))));
//! assert!(matches!(register.attempt(place(2), true, &turn), Ok(Attempt::Blocked { .. })));
//! assert_eq!(register.withdraw(ClaimId::from_bits(1), &turn), Withdrawal::Released);
//! // The next in line has it, and finds that when it asks again.
//! assert!(matches!(register.attempt(place(2), true, &turn), Ok(Attempt::Granted(_))));
//! ```

pub(crate) mod tokens;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

pub(crate) use self::tokens::{AHEAD_MAX, age};
pub use self::tokens::{reserve, ticks};
use super::{Attempt, ClaimId, Grant, Mode, Renewal, Withdrawal};
use crate::token::TokenBlock;

/// A claim as a register knows it.
#[derive(Debug, Clone)]
pub struct Place<T> {
    /// The claim that has this place.
    pub claim: ClaimId,
    /// The mode in which it wants the key, or has it.
    pub mode: Mode,
    /// The time that a grant of it lives.
    pub lease: Duration,
    /// The most tokens to reserve for it.
    pub tokens_max: u32,
    /// The time when it is taken out of the line unless it asked again. None where a store sees the
    /// end of those who wait.
    pub due: Option<Duration>,
    /// Data that the store keeps with it.
    pub with: T,
}

/// A claim that holds the key.
#[derive(Debug, Clone)]
pub struct Owner<T> {
    /// The claim.
    pub place: Place<T>,
    /// The end of its lease.
    pub until: Duration,
    /// Those that were reserved for it last.
    pub tokens: TokenBlock,
    /// The first of those it was granted with; a renewal brings others.
    pub first: Option<u64>,
    /// The number of its permit, the lowest that was free; 0 in other modes.
    pub slot: u32,
    /// Another claim handed it the key.
    pub handed_on: bool,
    /// It was asked to give the key up.
    pub revoke_requested: bool,
    /// Somebody who did not wait was refused the key, and the store has not told it.
    pub tried: bool,
}

/// The time when a verb is served, and what it needs of its store. Times count from any one
/// instant.
#[allow(missing_debug_implementations)]
pub struct Turn<'a, T> {
    /// The time when it is served.
    pub now: Duration,
    /// Reserves tokens behind the last one of the key, at most so many.
    pub mint: &'a dyn Fn(Option<u64>, u32) -> TokenBlock,
    /// Is told of each claim that stands elsewhere than it was told, or that others want the key
    /// of.
    pub wake: &'a dyn Fn(&T),
    /// Whether the key may be granted to those who wait.
    pub may_grant: bool,
}

/// Permits of the key are in use, or waited for, under this other limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherLimit(pub u32);

/// The claims that hold a key, and those that wait for it. A register with neither is as good as
/// none.
#[derive(Debug, Clone)]
pub struct Register<T> {
    /// The claims that hold it, in compatible modes.
    owners: SmallVec<[Owner<T>; 1]>,
    line: VecDeque<Place<T>>,
    /// The last token that was reserved for this key.
    last: Option<u64>,
}

impl<T> Default for Register<T> {
    fn default() -> Self {
        Self { owners: SmallVec::new(), line: VecDeque::new(), last: None }
    }
}

impl<T> Register<T> {
    /// One as it was read: of claims that hold the key, in compatible modes, those that wait, in
    /// their order, and the last token.
    #[must_use]
    pub fn of(
        owners: impl IntoIterator<Item = Owner<T>>,
        line: impl IntoIterator<Item = Place<T>>,
        last: Option<u64>,
    ) -> Self {
        Self { owners: owners.into_iter().collect(), line: line.into_iter().collect(), last }
    }

    /// All who were granted the key, those too whose leases are over.
    #[must_use]
    pub fn granted(&self) -> &[Owner<T>] {
        &self.owners
    }

    /// A claim that was told of its grant asks again: its store does not keep for how many tokens,
    /// and need not tell any more how it came to the key.
    pub fn asks_again(&mut self, claim: ClaimId, tokens_max: u32) {
        if let Some(at) = self.owner_of(claim) {
            let owner = &mut self.owners[at];
            owner.place.tokens_max = tokens_max;
            (owner.handed_on, owner.tried) = (false, false);
        }
    }

    /// Those who hold the key, but for leases that are over.
    pub fn owners(&self, now: Duration) -> impl Iterator<Item = &Owner<T>> {
        self.owners.iter().filter(move |owner| now < owner.until)
    }

    /// Those who wait, in their order.
    pub fn line(&self) -> impl Iterator<Item = &Place<T>> {
        self.line.iter()
    }

    /// Whether a claim waits.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.line.is_empty()
    }

    /// The last token that was reserved for the key. Whoever forgets a register keeps it.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Whether no claim is in line, and none holds the key but under a lease that is over.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        self.line.is_empty() && self.owners(now).next().is_none()
    }

    /// Joins the line if it `joins`, unless the key can be had at once. A claim that asks again,
    /// as its reply was lost, has its grant or its place already.
    ///
    /// # Errors
    ///
    /// Where permits of the key are in use, or waited for, under another limit: see
    /// [`Fault::other_limit`](super::Fault::other_limit).
    pub fn attempt(
        &mut self,
        place: Place<T>,
        joins: bool,
        turn: &Turn<'_, T>,
    ) -> Result<Attempt, OtherLimit> {
        self.end_leases(turn.now);
        self.promote(false, turn);
        if let Some(at) = self.owner_of(place.claim) {
            return Ok(Attempt::Granted(self.grant(at, turn.now)));
        }
        self.check_limit(place.mode)?;
        if self.line.is_empty() && self.is_open_to(place.mode) {
            let at = self.own(place, false, turn);
            return Ok(Attempt::Granted(self.grant(at, turn.now)));
        }
        let position = self.line.iter().position(|other| other.claim == place.claim);
        let ahead = self.owners.len() + position.unwrap_or(self.line.len());
        match position {
            Some(at) => self.line[at].due = place.due,
            None if joins => {
                self.line.push_back(place);
                if self.line.len() == 1 {
                    self.owners.iter().for_each(|owner| (turn.wake)(&owner.place.with));
                }
            }
            // Among several owners, none is more in the way than the others.
            None => {
                if let [owner] = &mut self.owners[..]
                    && !owner.tried
                {
                    owner.tried = true;
                    (turn.wake)(&owner.place.with);
                }
            }
        }
        // The first of them whose lease may end.
        let until = self.owners.iter().map(|owner| owner.until).min().unwrap_or(turn.now);
        let ahead = Some(u32::try_from(ahead).unwrap_or(u32::MAX));
        Ok(Attempt::Blocked { ahead, recheck: until.saturating_sub(turn.now) })
    }

    /// Takes the key from all who hold it, ahead of all who wait, for a claim that wants it alone. One
    /// that asks again, as its reply was lost, has its grant already.
    pub fn take_over(&mut self, place: Place<T>, turn: &Turn<'_, T>) -> Grant {
        self.end_leases(turn.now);
        let at = self.owner_of(place.claim).unwrap_or_else(|| {
            let taken = std::mem::take(&mut self.owners);
            taken.iter().for_each(|owner| (turn.wake)(&owner.place.with));
            self.own(place, false, turn)
        });
        self.grant(at, turn.now)
    }

    /// Extends the lease of a claim that holds the key, and reserves further tokens for it if it
    /// `mints`.
    pub fn renew(
        &mut self,
        claim: ClaimId,
        lease: Duration,
        mints: bool,
        turn: &Turn<'_, T>,
    ) -> Renewal {
        self.end_leases(turn.now);
        self.promote(false, turn);
        let Some(at) = self.owner_of(claim) else { return Renewal::Lost };
        let owner = &mut self.owners[at];
        owner.until = turn.now.saturating_add(lease);
        if mints {
            owner.tokens = (turn.mint)(self.last, owner.place.tokens_max);
            self.last = owner.tokens.last();
        }
        Renewal::Held(self.grant(at, turn.now))
    }

    /// Whether a claim that did not wait was refused the key since this was asked last.
    pub fn was_tried(&mut self, claim: ClaimId) -> bool {
        let owner = self.owner_of(claim).map(|at| &mut self.owners[at]);
        owner.is_some_and(|owner| std::mem::take(&mut owner.tried))
    }

    /// Takes a claim out, whether it holds the key or waits.
    pub fn withdraw(&mut self, claim: ClaimId, turn: &Turn<'_, T>) -> Withdrawal {
        self.end_leases(turn.now);
        let held = self.owner_of(claim);
        match held {
            Some(at) => drop(self.owners.remove(at)),
            None => self.line.retain(|other| other.claim != claim),
        }
        self.promote(held.is_some(), turn);
        if held.is_some() { Withdrawal::Released } else { Withdrawal::NotHeld }
    }

    /// Makes a writer a reader with a new lease, and lets in the readers behind it up to the next
    /// writer.
    pub fn downgrade(&mut self, claim: ClaimId, lease: Duration, turn: &Turn<'_, T>) -> Renewal {
        self.end_leases(turn.now);
        let is_permit = |at: usize| matches!(self.owners[at].place.mode, Mode::Permit { .. });
        let Some(at) = self.owner_of(claim).filter(|at| !is_permit(*at)) else {
            self.promote(false, turn);
            return Renewal::Lost;
        };
        let owner = &mut self.owners[at];
        (owner.until, owner.place.mode) = (turn.now.saturating_add(lease), Mode::Shared);
        self.promote(true, turn);
        Renewal::Held(self.grant(at, turn.now))
    }

    /// Moves the last token up for a claim that holds the key, unless it is beyond; whether it did.
    pub fn raise(&mut self, claim: ClaimId, to: u64, now: Duration) -> bool {
        let holds = self.owners(now).any(|owner| owner.place.claim == claim);
        let may = holds && self.last.is_none_or(|last| last <= to);
        if may {
            self.last = Some(to);
        }
        may
    }

    /// Asks those who hold the key now to give it up, and nobody who holds it later; whether
    /// anybody does.
    pub fn request_revoke(&mut self, turn: &Turn<'_, T>) -> bool {
        self.end_leases(turn.now);
        for owner in &mut self.owners {
            owner.revoke_requested = true;
            (turn.wake)(&owner.place.with);
        }
        let some = !self.owners.is_empty();
        self.promote(false, turn);
        some
    }

    /// Takes the key from all who hold it now; whether anybody did. Where it may not be granted,
    /// those who wait are woken, to ask.
    pub fn force_release(&mut self, turn: &Turn<'_, T>) -> bool {
        self.end_leases(turn.now);
        let taken = std::mem::take(&mut self.owners);
        taken.iter().for_each(|owner| (turn.wake)(&owner.place.with));
        self.promote(!taken.is_empty(), turn);
        if !turn.may_grant {
            self.line.iter().for_each(|place| (turn.wake)(&place.with));
        }
        !taken.is_empty()
    }

    fn end_leases(&mut self, now: Duration) {
        self.owners.retain(|owner| now < owner.until);
        if self.line.iter().any(|place| place.due.is_some()) {
            self.line.retain(|place| place.due.is_none_or(|due| now < due));
        }
    }

    fn owner_of(&self, claim: ClaimId) -> Option<usize> {
        self.owners.iter().position(|owner| owner.place.claim == claim)
    }

    /// Whether a claim of this mode can hold the key beside all that do.
    fn is_open_to(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.owners.is_empty(),
            Mode::Shared => self.owners.iter().all(|owner| owner.place.mode == mode),
            Mode::Permit { of } => {
                self.owners.len() < of as usize
                    && self.owners.iter().all(|owner| owner.place.mode == mode)
            }
        }
    }

    /// All who use or want permits of a key say the same of how many there are.
    fn check_limit(&self, mode: Mode) -> Result<(), OtherLimit> {
        let Mode::Permit { of } = mode else { return Ok(()) };
        let places = self.owners.iter().map(|owner| &owner.place).chain(&self.line);
        let other = places.into_iter().find_map(|place| match place.mode {
            Mode::Permit { of: other } if other != of => Some(other),
            _ => None,
        });
        other.map_or(Ok(()), |other| Err(OtherLimit(other)))
    }

    /// The grant of a claim that was granted the key, as an attempt would be answered now.
    #[must_use]
    pub fn grant_of(&self, claim: ClaimId, now: Duration) -> Option<Grant> {
        self.owner_of(claim).map(|at| self.grant(at, now))
    }

    fn grant(&self, at: usize, now: Duration) -> Grant {
        let Owner { tokens, until, slot, handed_on, revoke_requested, .. } = self.owners[at];
        let (valid_for, wanted) = (until.saturating_sub(now), self.is_wanted());
        Grant { tokens, valid_for, slot, wanted, handed_on, revoke_requested }
    }

    fn promote(&mut self, handed_on: bool, turn: &Turn<'_, T>) {
        while turn.may_grant
            && let Some(head) = self.line.front()
            && self.is_open_to(head.mode)
            && let Some(head) = self.line.pop_front()
        {
            (turn.wake)(&head.with);
            self.own(head, handed_on, turn);
        }
    }

    fn own(&mut self, place: Place<T>, handed_on: bool, turn: &Turn<'_, T>) -> usize {
        let until = turn.now.saturating_add(place.lease);
        let tokens = (turn.mint)(self.last, place.tokens_max);
        self.last = tokens.last();
        let slot = match place.mode {
            Mode::Permit { .. } => self.free_slot(),
            _ => 0,
        };
        let (first, revoke_requested) = (tokens.first(), false);
        let tried = false;
        self.owners.push(Owner {
            place,
            until,
            tokens,
            first,
            slot,
            handed_on,
            revoke_requested,
            tried,
        });
        self.owners.len() - 1
    }

    /// The lowest number that no permit has.
    fn free_slot(&self) -> u32 {
        let mut taken = vec![false; self.owners.len() + 1];
        for owner in &self.owners {
            if let Some(slot) = taken.get_mut(owner.slot as usize) {
                *slot = true;
            }
        }
        let free = taken.iter().position(|taken| !taken).unwrap_or(0);
        u32::try_from(free).unwrap_or(0)
    }
}
