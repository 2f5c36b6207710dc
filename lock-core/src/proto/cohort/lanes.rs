//! The lanes of a key: which claims are open, and who holds the key by which of them.

use super::*;

/// The most claims of one mode that a process has on a key.
pub(super) fn lanes_max(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive | Mode::Shared => 1,
        Mode::Permit { of } => of as usize,
    }
}

impl<W, R> Cohort<W, R> {
    pub(super) fn beside(&self) -> Option<&Beside<R>> {
        self.more.as_ref()?.beside.as_deref()
    }

    pub(super) fn beside_mut(&mut self) -> Option<&mut Beside<R>> {
        self.more.as_mut()?.beside.as_deref_mut()
    }

    /// How many lanes may have a claim. The last one but the first has.
    pub(crate) fn opened(&self) -> usize {
        1 + self.beside().map_or(0, Beside::len)
    }

    /// How many claims are open.
    fn open(&self) -> usize {
        usize::from(self.place.mode().is_some()) + self.beside().map_or(0, Beside::open)
    }

    /// How many claims ask.
    pub(super) fn asking(&self) -> usize {
        usize::from(matches!(self.place, Phase::Asking(_)))
            + self.beside().map_or(0, Beside::asking)
    }

    /// How many claims ask that were not answered.
    pub(super) fn unanswered(&self) -> usize {
        let first = matches!(&self.place, Phase::Asking(asking) if !asking.answered);
        usize::from(first) + self.beside().map_or(0, Beside::unanswered)
    }

    /// How many claims of this mode may be opened once those have gone that may not stand in line
    /// and would have to.
    pub(super) fn room_for(&self, mode: Mode) -> usize {
        if self.open_mode().is_some_and(|other| other != mode) {
            return 0;
        }
        let first = matches!(&self.place, Phase::Asking(asking) if asking.is_in_line());
        let in_line = usize::from(first) + self.beside().map_or(0, Beside::in_line);
        let going = self.asking() - self.unanswered() - in_line;
        (lanes_max(mode) + going).saturating_sub(self.open())
    }

    /// The mode of all open claims.
    pub(super) fn open_mode(&self) -> Option<Mode> {
        self.place.mode().or_else(|| self.beside()?.mode())
    }

    /// How many claims somebody here holds, rest, or stand in the store's line.
    pub(super) fn busy(&self) -> usize {
        let first = match &self.place {
            Phase::Vacant => false,
            Phase::Asking(asking) => asking.is_in_line(),
            Phase::Held(held) => held.is_taken(),
        };
        usize::from(first) + self.beside().map_or(0, Beside::busy)
    }

    /// Whether the key is taken here: somebody holds it, or it rests.
    pub(super) fn is_taken(&self) -> bool {
        self.holder().is_some()
            || self.held_in(0).is_some_and(Held::is_resting)
            || self.beside().is_some_and(Beside::is_resting)
    }

    /// Whether the first claim stands in the store's line, and others of this process hold the key.
    pub(super) fn is_in_line_behind_its_own(&self) -> bool {
        matches!(&self.place, Phase::Asking(asking) if asking.answered) && self.is_taken()
    }

    /// Whether a renewal is under way.
    pub(super) fn is_renewing(&self) -> bool {
        self.held_in(0).is_some_and(Held::is_renewing)
            || self.beside().is_some_and(Beside::is_renewing)
    }

    pub(super) fn place(&self, lane: usize) -> Option<&Phase<R>> {
        match lane {
            0 => Some(&self.place),
            lane => self.beside()?.place(lane),
        }
    }

    pub(super) fn place_mut(&mut self, lane: usize) -> Option<&mut Phase<R>> {
        match lane {
            0 => Some(&mut self.place),
            lane => self.beside_mut()?.place_mut(lane),
        }
    }

    /// Sets where the claim of a lane stands from now on.
    #[inline(always)]
    pub(super) fn put(&mut self, lane: usize, place: Phase<R>) {
        match lane {
            0 => self.place = place,
            lane => self.more().beside.get_or_insert_default().put(lane, place),
        }
    }

    /// Something has changed in a lane, which is to be looked at.
    #[inline]
    pub(super) fn note(&mut self, lane: usize) {
        if lane > 0
            && let Some(beside) = self.beside_mut()
        {
            beside.note(lane);
        }
    }

    /// The driver is to look at a lane.
    pub(crate) fn look_at(&mut self, lane: usize) {
        if lane > 0
            && let Some(beside) = self.beside_mut()
        {
            beside.look_at(lane);
        }
    }

    /// Those who were told not to listen may do so now.
    pub(crate) fn look_at_deaf(&mut self) {
        if let Some(beside) = self.beside_mut() {
            beside.look_at_deaf();
        }
    }

    /// The next lane to [step](Self::step) behind the first: one of those in which something has
    /// changed, or where one more claim finds its place. `leaves` is whether the claim of any lane
    /// leaves.
    pub(crate) fn next_lane(&mut self, now: Instant, leaves: bool) -> Option<usize> {
        if self.beside().is_some() {
            let has_new_head = self.line.has_new_head();
            let (wanted, listens) = (self.wanted_beside(), self.is_to_listen());
            let beside = self.beside_mut()?;
            beside.balance(wanted);
            if listens {
                beside.look_at_deaf();
            }
            if has_new_head {
                // The first was looked at before the head went, by the claim of another lane perhaps.
                beside.look_at_idle();
                return Some(0);
            }
            if let Some(lane) = beside.next(now) {
                return Some(lane);
            }
        }
        let may = self.ask_not_before().is_none_or(|at| at <= now)
            && (!leaves || self.line.len() > self.line.hasty());
        if !may || !self.is_claim_wanted() {
            return None;
        }
        Some(if self.place.mode().is_none() { 0 } else { self.beside().map_or(1, Beside::vacant) })
    }

    /// When to step the next of the lanes beside the first.
    pub(crate) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let opens = self.ask_not_before().filter(|at| *at > now && self.is_claim_wanted());
        self.beside().and_then(Beside::due).into_iter().chain(opens).min()
    }

    /// How many of the claims beside the first ask for somebody in line: the first claim for the
    /// first, and so on, as long as they are of its mode.
    fn wanted_beside(&self) -> usize {
        if self.head_mode() != self.open_mode() {
            return 0;
        }
        self.line.run().saturating_sub(usize::from(matches!(self.place, Phase::Asking(_))))
    }

    /// Whether the claim that asks in this lane asks for somebody in line.
    pub(super) fn is_for_somebody(&self, lane: usize, mode: Mode) -> bool {
        self.head_mode() == Some(mode)
            && !self.beside().is_some_and(|beside| beside.asks_in_vain(lane))
    }

    fn head_mode(&self) -> Option<Mode> {
        Some(self.line.first()?.ask.terms.mode)
    }

    pub(super) fn held_in(&self, lane: usize) -> Option<&Held<R>> {
        match self.place(lane)? {
            Phase::Held(held) => Some(held),
            _ => None,
        }
    }

    pub(super) fn held_in_mut(&mut self, lane: usize) -> Option<&mut Held<R>> {
        match self.place_mut(lane)? {
            Phase::Held(held) => Some(held),
            _ => None,
        }
    }

    pub(super) fn asking_in_mut(&mut self, lane: usize) -> Option<&mut Asking> {
        match self.place_mut(lane)? {
            Phase::Asking(asking) => Some(asking),
            _ => None,
        }
    }

    /// Whether one more claim is wanted.
    #[inline]
    pub(super) fn is_claim_wanted(&self) -> bool {
        let Some(mode) = self.head_mode() else { return false };
        self.open_mode().is_none_or(|other| other == mode)
            && self.open() < lanes_max(mode)
            && self.asking() < self.line.run()
    }

    /// The terms on which one more claim is wanted: those of the first in line for whom none asks.
    /// That is the head where all that ask were opened for less, by those who have left since: it is
    /// granted the key first, so all of them would be given back, and opened again as they were.
    pub(super) fn wanted_claim(&mut self) -> Option<Terms> {
        if !self.is_claim_wanted() {
            return None;
        }
        let head = self.line.head()?;
        let is_head_asked_for = {
            let ask = &self.line.get(head)?.ask;
            self.asking_claims().any(|asking| asking.suits(ask))
        };
        let first = if is_head_asked_for { self.line.nth(self.asking())? } else { head };
        let terms = self.line.get(first)?.ask.terms;
        Some(Terms { queues: self.line.len() > self.line.hasty(), ..terms })
    }

    /// The claims that ask for somebody in line.
    fn asking_claims(&self) -> impl Iterator<Item = &Asking> {
        let first = match &self.place {
            Phase::Asking(asking) => Some(asking),
            _ => None,
        };
        first.into_iter().chain(self.beside().into_iter().flat_map(Beside::asking_claims))
    }

    /// Whether one who wants the key in this mode finds all claims open that this process may have.
    pub(super) fn is_full_for(&self, mode: Mode) -> bool {
        self.open() >= lanes_max(mode)
    }

    /// The guards that hold the lock here.
    #[cfg(test)]
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        (0..self.opened()).flat_map(|lane| self.holders_in(lane))
    }

    /// The guards that hold it by the claim of this lane. Readers are in the first.
    pub(super) fn holders_in(&self, lane: usize) -> impl Iterator<Item = &Holder> {
        let readers = self.more.iter().flat_map(|more| more.readers.iter());
        let readers = readers.filter(move |_| lane == 0).inspect(|_| effort::spend());
        self.held_in(lane).into_iter().flat_map(|held| &held.holder).chain(readers)
    }

    /// The first hold limit of those who hold it by the claim of this lane, and the token.
    #[inline]
    pub(super) fn limit_in(&self, lane: usize) -> Option<(Instant, u64)> {
        let holder = self.held_in(lane)?.holder.as_ref();
        let first = holder.and_then(|holder| Some((holder.until?, holder.token)));
        let readers = self.more.as_ref().filter(|_| lane == 0);
        first.into_iter().chain(readers.and_then(|more| more.readers.limit())).min()
    }

    /// The spot of the hold under `token`. Most keys have no other.
    #[inline]
    pub(super) fn spot_of(&self, token: u64) -> Option<Spot> {
        match &self.place {
            Phase::Held(Held { holder: Some(holder), .. }) if holder.token == token => {
                Some(Spot::Lane(0))
            }
            _ => self.spot_beside(token),
        }
    }

    fn spot_beside(&self, token: u64) -> Option<Spot> {
        let More { readers, beside, .. } = self.more.as_deref()?;
        if readers.get(token).is_some() {
            return Some(Spot::Reader(token));
        }
        beside.as_ref()?.lane_of(token).map(Spot::Lane)
    }

    /// The claim and the guard of the hold under `token`.
    #[inline]
    pub(super) fn hold_of(&self, token: u64) -> Option<(&Held<R>, &Holder)> {
        self.hold_at(self.spot_of(token)?)
    }

    #[inline]
    pub(super) fn hold_at(&self, spot: Spot) -> Option<(&Held<R>, &Holder)> {
        let held = self.held_in(spot.lane())?;
        let holder = match spot {
            Spot::Lane(_) => held.holder.as_ref(),
            Spot::Reader(token) => self.more.as_ref()?.readers.get(token),
        };
        Some((held, holder?))
    }

    #[inline]
    pub(super) fn holder_at(&mut self, spot: Spot) -> Option<&mut Holder> {
        match spot {
            Spot::Lane(lane) => self.held_in_mut(lane)?.holder.as_mut(),
            Spot::Reader(token) => self.more.as_mut()?.readers.get_mut(token),
        }
    }

    /// Takes one of those who hold the lock out.
    #[inline]
    pub(super) fn take_holder(&mut self, spot: Spot) -> Option<Holder> {
        match spot {
            Spot::Lane(lane) => {
                let of_readers = self.more.as_mut().filter(|_| lane == 0);
                let another = of_readers.and_then(|more| more.readers.pop());
                let taken = std::mem::replace(&mut self.held_in_mut(lane)?.holder, another);
                self.note(lane);
                taken
            }
            Spot::Reader(token) => self.more.as_mut()?.readers.take(token),
        }
    }
}

/// The spot of a hold: by which claim it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// It is that of the claim in this lane, or of several readers one.
    Lane(usize),
    /// It is that of one of the others, which are of the first lane, under this token.
    Reader(u64),
}

impl Spot {
    /// The lane by whose claim the lock is held.
    pub(super) fn lane(self) -> usize {
        match self {
            Self::Lane(lane) => lane,
            Self::Reader(_) => 0,
        }
    }
}
