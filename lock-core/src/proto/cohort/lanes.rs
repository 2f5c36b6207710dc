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

    /// The first lane, if the lock is held by its claim under `token`: most keys have no other.
    #[inline]
    fn first_of(&self, token: u64) -> Option<(&Held<R>, &Holder)> {
        let Place::Held(held) = &self.place else { return None };
        held.holder.as_ref().filter(|holder| holder.token == token).map(|holder| (held, holder))
    }

    /// The lane by whose claim the lock is held under `token`.
    pub(super) fn lane_of(&self, token: u64) -> Option<usize> {
        if self.first_of(token).is_some() {
            return Some(0);
        }
        if self.reader_at(token).is_some() {
            return Some(0);
        }
        (1..self.opened()).find(|lane| {
            let holder = self.held_in(*lane).and_then(|held| held.holder.as_ref());
            holder.is_some_and(|holder| holder.token == token)
        })
    }

    /// Where a further reader stands. They are in the order of their tokens, as each is let in under
    /// a greater one.
    fn reader_at(&self, token: u64) -> Option<usize> {
        let readers = &self.more.as_ref()?.readers;
        readers.binary_search_by_key(&token, |reader| reader.token).ok()
    }

    /// The claim and the guard of the hold under `token`.
    pub(super) fn hold_of(&self, token: u64) -> Option<(&Held<R>, &Holder)> {
        if let Some(hold) = self.first_of(token) {
            return Some(hold);
        }
        if let Some(at) = self.reader_at(token) {
            return Some((self.held_in(0)?, self.more.as_ref()?.readers.get(at)?));
        }
        let held = self.held_in(self.lane_of(token)?)?;
        Some((held, held.holder.as_ref()?))
    }

    pub(super) fn holder_mut(&mut self, token: u64) -> Option<&mut Holder> {
        if let Some(at) = self.reader_at(token) {
            return self.more.as_mut()?.readers.get_mut(at);
        }
        let lane = self.lane_of(token)?;
        self.held_in_mut(lane)?.holder.as_mut()
    }

    /// Takes one of those who hold it by the claim of this lane out.
    pub(super) fn take_holder(&mut self, lane: usize, token: u64) -> Option<Holder> {
        let mine = |holder: &mut Holder| holder.token == token;
        if lane > 0 {
            return self.held_in_mut(lane)?.holder.take_if(mine);
        }
        let Place::Held(held) = &mut self.place else { return None };
        if held.holder.as_mut().is_some_and(mine) {
            let another = self.more.as_mut().and_then(|more| more.readers.pop());
            return std::mem::replace(&mut held.holder, another);
        }
        let at = self.reader_at(token)?;
        Some(self.more.as_mut()?.readers.remove(at))
    }
}
