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
    /// How many lanes there are to drive: those that have a claim, and one more if that is wanted.
    pub(crate) fn lanes(&self) -> usize {
        self.opened() + usize::from(self.wanted_claim().is_some())
    }

    /// Whether more than one may hold it: by several claims, or as readers of one.
    #[inline]
    pub(super) fn is_shared_here(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !more.lanes.is_empty() || !more.readers.is_empty())
    }

    /// How many lanes may have a claim.
    pub(super) fn opened(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.lanes.len())
    }

    /// The places of all lanes that may have a claim.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place<R>> {
        let others = self.more.iter().flat_map(|more| &more.lanes);
        std::iter::once(&self.place).chain(others)
    }

    pub(super) fn place(&self, lane: usize) -> Option<&Place<R>> {
        match lane.checked_sub(1) {
            None => Some(&self.place),
            Some(at) => self.more.as_ref()?.lanes.get(at),
        }
    }

    pub(super) fn place_mut(&mut self, lane: usize) -> Option<&mut Place<R>> {
        match lane.checked_sub(1) {
            None => Some(&mut self.place),
            Some(at) => self.more.as_mut()?.lanes.get_mut(at),
        }
    }

    /// Where the claim of a lane stands from now on.
    #[inline(always)]
    pub(super) fn put(&mut self, lane: usize, place: Place<R>) {
        match lane.checked_sub(1) {
            None => self.place = place,
            Some(at) => self.put_beside(at, place),
        }
    }

    fn put_beside(&mut self, at: usize, place: Place<R>) {
        let lanes = &mut self.more().lanes;
        if lanes.len() <= at {
            lanes.resize_with(at + 1, || Place::Vacant);
        }
        lanes[at] = place;
        while lanes.pop_if(|last| matches!(last, Place::Vacant)).is_some() {}
    }

    /// The granted claims.
    pub(super) fn held(&self) -> impl Iterator<Item = &Held<R>> {
        self.places().filter_map(|place| match place {
            Place::Held(held) => Some(held),
            _ => None,
        })
    }

    pub(super) fn held_in(&self, lane: usize) -> Option<&Held<R>> {
        match self.place(lane)? {
            Place::Held(held) => Some(held),
            _ => None,
        }
    }

    pub(super) fn held_in_mut(&mut self, lane: usize) -> Option<&mut Held<R>> {
        match self.place_mut(lane)? {
            Place::Held(held) => Some(held),
            _ => None,
        }
    }

    pub(super) fn asking_in_mut(&mut self, lane: usize) -> Option<&mut Asking> {
        match self.place_mut(lane)? {
            Place::Asking(asking) => Some(asking),
            _ => None,
        }
    }

    /// How many claims ask before that of `lane`.
    pub(super) fn asking_before(&self, lane: usize) -> usize {
        self.places().take(lane).filter(|place| matches!(place, Place::Asking(_))).count()
    }

    /// The terms on which one more claim is wanted: those of the first in line for whom none asks.
    pub(super) fn wanted_claim(&self) -> Option<Terms> {
        let mode = self.line.get(self.line.head()?)?.ask.terms.mode;
        let (mut open, mut asking) = (0, 0);
        for place in self.places() {
            let other = match place {
                Place::Vacant => continue,
                Place::Asking(other) => {
                    asking += 1;
                    other.terms.mode
                }
                Place::Held(held) => held.mode,
            };
            if other != mode {
                return None;
            }
            open += 1;
        }
        if open >= lanes_max(mode) {
            return None;
        }
        let mut at = self.line.head();
        for _ in 0..asking {
            at = self.line.after(at?);
        }
        let terms = self.line.get(at?)?.ask.terms;
        (terms.mode == mode).then(|| Terms { queues: self.has_queuer(), ..terms })
    }

    /// Whether one who wants the key in this mode finds all claims open that this process may have.
    pub(super) fn is_full_for(&self, mode: Mode) -> bool {
        self.places().filter(|place| !matches!(place, Place::Vacant)).count() >= lanes_max(mode)
    }

    /// The guards that hold the lock here.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        let readers = self.more.iter().flat_map(|more| &more.readers);
        self.held().filter_map(|held| held.holder.as_ref()).chain(readers)
    }

    /// The guards that hold it by the claim of this lane. Readers are in the first.
    pub(super) fn holders_in(&self, lane: usize) -> impl Iterator<Item = &Holder> {
        let readers = self.more.iter().flat_map(|more| &more.readers).filter(move |_| lane == 0);
        self.held_in(lane).into_iter().flat_map(|held| &held.holder).chain(readers)
    }

    /// Where the hold under `token` is. Most keys have no other.
    #[inline]
    pub(super) fn spot_of(&self, token: u64) -> Option<Spot> {
        match &self.place {
            Place::Held(Held { holder: Some(holder), .. }) if holder.token == token => {
                Some(Spot::Lane(0))
            }
            _ => self.spot_beside(token),
        }
    }

    fn spot_beside(&self, token: u64) -> Option<Spot> {
        let More { readers, lanes, .. } = self.more.as_deref()?;
        // In the order of their tokens, as each is let in under a greater one.
        if let Ok(at) = readers.binary_search_by_key(&token, |reader| reader.token) {
            return Some(Spot::Reader(at));
        }
        let is_mine = |place: &Place<R>| match place {
            Place::Held(held) => held.holder.as_ref().is_some_and(|holder| holder.token == token),
            _ => false,
        };
        lanes.iter().position(is_mine).map(|at| Spot::Lane(at + 1))
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
            Spot::Reader(at) => self.more.as_ref()?.readers.get(at),
        };
        Some((held, holder?))
    }

    #[inline]
    pub(super) fn holder_at(&mut self, spot: Spot) -> Option<&mut Holder> {
        match spot {
            Spot::Lane(lane) => self.held_in_mut(lane)?.holder.as_mut(),
            Spot::Reader(at) => self.more.as_mut()?.readers.get_mut(at),
        }
    }

    /// Takes one of those who hold the lock out.
    #[inline]
    pub(super) fn take_holder(&mut self, spot: Spot) -> Option<Holder> {
        match spot {
            Spot::Lane(lane) => {
                let of_readers = self.more.as_mut().filter(|_| lane == 0);
                let another = of_readers.and_then(|more| more.readers.pop());
                std::mem::replace(&mut self.held_in_mut(lane)?.holder, another)
            }
            Spot::Reader(at) => {
                let more = self.more.as_mut().filter(|more| at < more.readers.len())?;
                Some(more.readers.remove(at))
            }
        }
    }
}

/// Where a hold is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// It is that of the claim in this lane, or of several readers one.
    Lane(usize),
    /// It is one of the others, which are of the first lane.
    Reader(usize),
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
