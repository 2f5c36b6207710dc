//! The lanes beside the first, of a key of permits. Each is known by what it is, so that what one
//! asks of all of them, and what happens to one, costs the same however many there are.

use super::*;

/// The lanes beside the first, by their numbers: the first of them is number 1.
#[derive(Debug)]
pub(super) struct Beside<R> {
    /// The last one has a claim.
    lanes: Vec<Lane<R>>,
    vacant: BTreeSet<usize>,
    /// Those whose claim asks for one in line.
    asking: BTreeSet<usize>,
    /// Those whose claim asks, and for whom nobody is left in line.
    in_vain: BTreeSet<usize>,
    /// So many of both were told that they stand in the store's line.
    in_line: usize,
    /// So many of both were not answered.
    unanswered: usize,
    /// Those that nobody holds, and that are granted.
    idle: BTreeSet<usize>,
    /// Those that somebody holds, by the tokens.
    holders: BTreeMap<u64, usize>,
    renewing: usize,
    /// So many are kept from all.
    resting: usize,
    /// Something has changed for these.
    to_look: BTreeSet<usize>,
    /// These were told that nobody waits for a push.
    deaf: BTreeSet<usize>,
    /// When to look again.
    due: BTreeSet<(Instant, usize)>,
}

#[derive(Debug)]
struct Lane<R> {
    place: Phase<R>,
    known: Known,
    due: Option<Instant>,
}

/// A note of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Vacant,
    Asking { in_line: bool, answered: bool },
    Held { holder: Option<u64>, renewing: bool, rests: bool },
}

impl Known {
    fn of<R>(place: &Phase<R>) -> Self {
        match place {
            Phase::Vacant => Self::Vacant,
            Phase::Asking(asking) => {
                Self::Asking { in_line: asking.is_in_line(), answered: asking.answered }
            }
            Phase::Held(held) => Self::Held {
                holder: held.holder.as_ref().map(|holder| holder.token),
                renewing: held.is_renewing(),
                rests: held.is_resting(),
            },
        }
    }
}

impl<R> Default for Beside<R> {
    fn default() -> Self {
        Self {
            lanes: Vec::new(),
            vacant: BTreeSet::new(),
            asking: BTreeSet::new(),
            in_vain: BTreeSet::new(),
            in_line: 0,
            unanswered: 0,
            idle: BTreeSet::new(),
            holders: BTreeMap::new(),
            renewing: 0,
            resting: 0,
            to_look: BTreeSet::new(),
            deaf: BTreeSet::new(),
            due: BTreeSet::new(),
        }
    }
}

impl<R> Beside<R> {
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn place(&self, lane: usize) -> Option<&Phase<R>> {
        self.lanes.get(lane.checked_sub(1)?).map(|lane| &lane.place)
    }

    /// A caller that changes what the lane is says so by [`note`](Self::note).
    pub(super) fn place_mut(&mut self, lane: usize) -> Option<&mut Phase<R>> {
        self.lanes.get_mut(lane.checked_sub(1)?).map(|lane| &mut lane.place)
    }

    pub(super) fn put(&mut self, lane: usize, place: Phase<R>) {
        while self.lanes.len() < lane {
            self.lanes.push(Lane { place: Phase::Vacant, known: Known::Vacant, due: None });
            self.vacant.insert(self.lanes.len());
        }
        if let Some(at) = self.place_mut(lane) {
            *at = place;
        }
        self.note(lane);
        while self.lanes.last().is_some_and(|last| last.known == Known::Vacant) {
            self.wait(self.lanes.len(), None);
            self.vacant.remove(&self.lanes.len());
            self.lanes.pop();
        }
    }

    /// Notes what a lane is from now on, and has it looked at.
    pub(super) fn note(&mut self, lane: usize) {
        let Some(at) = lane.checked_sub(1).and_then(|at| self.lanes.get_mut(at)) else { return };
        let now = Known::of(&at.place);
        let was = std::mem::replace(&mut at.known, now);
        self.to_look.insert(lane);
        if was == now {
            return;
        }
        match was {
            Known::Vacant => drop(self.vacant.remove(&lane)),
            Known::Asking { in_line, answered } => {
                let _ = self.asking.remove(&lane) || self.in_vain.remove(&lane);
                self.in_line -= usize::from(in_line);
                self.unanswered -= usize::from(!answered);
            }
            Known::Held { holder, renewing, rests } => {
                let _ = match holder {
                    Some(token) => self.holders.remove(&token).is_some(),
                    None => self.idle.remove(&lane),
                };
                self.renewing -= usize::from(renewing);
                self.resting -= usize::from(rests);
            }
        }
        match now {
            Known::Vacant => drop(self.vacant.insert(lane)),
            Known::Asking { in_line, answered } => {
                self.asking.insert(lane);
                self.in_line += usize::from(in_line);
                self.unanswered += usize::from(!answered);
            }
            Known::Held { holder, renewing, rests } => {
                let _ = match holder {
                    Some(token) => self.holders.insert(token, lane).is_none(),
                    None => self.idle.insert(lane),
                };
                self.renewing += usize::from(renewing);
                self.resting += usize::from(rests);
            }
        }
    }

    /// So many have a claim.
    pub(super) fn open(&self) -> usize {
        self.lanes.len() - self.vacant.len()
    }

    /// The claims that ask for one in line.
    pub(super) fn asking_claims(&self) -> impl Iterator<Item = &Asking> {
        self.asking.iter().filter_map(|lane| match self.place(*lane)? {
            Phase::Asking(asking) => Some(asking),
            Phase::Vacant | Phase::Held(_) => None,
        })
    }

    /// So many ask.
    pub(super) fn asking(&self) -> usize {
        self.asking.len() + self.in_vain.len()
    }

    /// So many are held, rest, or stand in the store's line.
    pub(super) fn busy(&self) -> usize {
        self.holders.len() + self.resting + self.in_line
    }

    pub(super) fn is_resting(&self) -> bool {
        self.resting > 0
    }

    /// So many stand in the store's line.
    pub(super) fn in_line(&self) -> usize {
        self.in_line
    }

    /// So many ask, and were not answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    pub(super) fn is_renewing(&self) -> bool {
        self.renewing > 0
    }

    /// The mode of all claims.
    pub(super) fn mode(&self) -> Option<Mode> {
        self.lanes.last()?.place.mode()
    }

    /// The lane in which one more claim finds its place.
    pub(super) fn vacant(&self) -> usize {
        self.vacant.first().copied().unwrap_or(self.lanes.len() + 1)
    }

    pub(super) fn idle(&self) -> impl Iterator<Item = usize> {
        self.idle.iter().copied()
    }

    /// How many hold one.
    pub(super) fn held(&self) -> usize {
        self.holders.len()
    }

    /// One of those who hold one.
    pub(super) fn holder(&self) -> Option<u64> {
        self.holders.first_key_value().map(|(token, _)| *token)
    }

    /// The lane of the hold under `token`.
    pub(super) fn lane_of(&self, token: u64) -> Option<usize> {
        self.holders.get(&token).copied()
    }

    pub(super) fn asks_in_vain(&self, lane: usize) -> bool {
        self.in_vain.contains(&lane)
    }

    /// So many of those who ask do so for somebody. Of the others, the last give up.
    pub(super) fn balance(&mut self, wanted: usize) {
        while self.asking.len() > wanted
            && let Some(last) = self.asking.pop_last()
        {
            self.in_vain.insert(last);
            self.to_look.insert(last);
        }
        while self.asking.len() < wanted
            && let Some(first) = self.in_vain.pop_first()
        {
            self.asking.insert(first);
            self.to_look.insert(first);
        }
    }

    pub(super) fn look_at(&mut self, lane: usize) {
        self.to_look.insert(lane);
    }

    pub(super) fn look_at_idle(&mut self) {
        self.to_look.extend(&self.idle);
    }

    /// They are to listen now.
    pub(super) fn look_at_deaf(&mut self) {
        self.to_look.append(&mut self.deaf);
    }

    /// Nothing is to be done for a lane before then.
    pub(super) fn rest(&mut self, lane: usize, until: Option<Instant>, is_deaf: bool) {
        self.wait(lane, until);
        if is_deaf && self.place(lane).and_then(Phase::mode).is_some() {
            self.deaf.insert(lane);
        }
    }

    fn wait(&mut self, lane: usize, until: Option<Instant>) {
        self.to_look.remove(&lane);
        let Some(at) = lane.checked_sub(1).and_then(|at| self.lanes.get_mut(at)) else { return };
        if let Some(was) = std::mem::replace(&mut at.due, until) {
            self.due.remove(&(was, lane));
        }
        self.due.extend(until.map(|until| (until, lane)));
    }

    /// The first instant at which one is to be looked at.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next that is to be looked at.
    pub(super) fn next(&mut self, now: Instant) -> Option<usize> {
        while let Some((at, lane)) = self.due.first().copied()
            && at <= now
        {
            self.wait(lane, None);
            self.to_look.insert(lane);
        }
        self.to_look.pop_first()
    }
}
