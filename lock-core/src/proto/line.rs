//! A FIFO whose members can leave from the middle in constant time. It keeps the seat of a member
//! that left until its owner has read what became of it.

use smallvec::SmallVec;

/// A waiter, as a line sees it.
pub(crate) trait Stands {
    /// Whether both want the same kind of thing.
    fn is_like(&self, other: &Self) -> bool;

    /// Whether it goes at once if it would have to wait.
    fn is_hasty(&self) -> bool;
}

/// Names a seat until [`Line::remove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatId(u32);

const NONE: u32 = u32::MAX;

/// Those at the head who are all like the first.
const RUN: usize = 0;
/// Those who were counted by [`Line::nth`].
const COUNTED: usize = 1;

#[derive(Debug)]
enum Slot<T> {
    Free { next: u32 },
    Taken { prev: u32, next: u32, queued: bool, before: [bool; 2], value: T },
}

/// Parts the line in two. It moves by one step at a time, so it costs what has changed.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The first seat behind it.
    at: u32,
    /// How many stand before it.
    before: u32,
}

/// A line of `T`, each in a seat of its own.
#[derive(Debug)]
pub(crate) struct Line<T> {
    /// A held key without waiters keeps no memory for them.
    seats: Option<Box<Seats<T>>>,
    has_new_head: bool,
}

#[derive(Debug)]
struct Seats<T> {
    /// Most keys never have a second waiter.
    slots: SmallVec<[Slot<T>; 1]>,
    free: u32,
    head: u32,
    tail: u32,
    queued: u32,
    /// Seats that were not removed, in the line or not.
    taken: u32,
    hasty: u32,
    marks: [Mark; 2],
}

impl<T> Default for Seats<T> {
    fn default() -> Self {
        let marks = [Mark { at: NONE, before: 0 }; 2];
        let (free, head, tail) = (NONE, NONE, NONE);
        let (queued, taken, hasty) = (0, 0, 0);
        Self { slots: SmallVec::new(), free, head, tail, queued, taken, hasty, marks }
    }
}

fn seat(at: u32) -> Option<SeatId> {
    (at != NONE).then_some(SeatId(at))
}

impl<T> Line<T> {
    pub(crate) const fn new() -> Self {
        Self { seats: None, has_new_head: false }
    }

    /// How many stand in the line; seats that left it but were not removed do not count.
    pub(crate) fn len(&self) -> usize {
        self.seats.as_ref().map_or(0, |seats| seats.queued as usize)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them go at once if they would have to wait.
    pub(crate) fn hasty(&self) -> usize {
        self.seats.as_ref().map_or(0, |seats| seats.hasty as usize)
    }

    /// How many stand at the head that are all like the first.
    pub(crate) fn run(&self) -> usize {
        self.seats.as_ref().map_or(0, |seats| seats.marks[RUN].before as usize)
    }

    /// The first that is not like the head.
    pub(crate) fn behind_run(&self) -> Option<SeatId> {
        seat(self.seats.as_ref()?.marks[RUN].at)
    }

    /// Whether another stands at the head than when this was last asked, or nobody does.
    pub(crate) fn has_new_head(&mut self) -> bool {
        std::mem::take(&mut self.has_new_head)
    }

    pub(crate) fn head(&self) -> Option<SeatId> {
        seat(self.seats.as_ref()?.head)
    }

    pub(crate) fn tail(&self) -> Option<SeatId> {
        seat(self.seats.as_ref()?.tail)
    }

    /// The seat behind `id` in the line.
    pub(crate) fn after(&self, id: SeatId) -> Option<SeatId> {
        match self.seats.as_ref()?.slots.get(id.0 as usize)? {
            Slot::Taken { next, .. } => seat(*next),
            Slot::Free { .. } => None,
        }
    }

    /// Those in the line, from this seat on.
    pub(crate) fn iter_from(&self, first: Option<SeatId>) -> impl Iterator<Item = &T> {
        let seats = std::iter::successors(first, |id| self.after(*id));
        seats.filter_map(|id| self.get(id))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.iter_from(self.head())
    }

    /// The value at the head.
    pub(crate) fn first(&self) -> Option<&T> {
        self.get(self.head()?)
    }

    /// The seat before `id` in the line.
    pub(crate) fn before(&self, id: SeatId) -> Option<SeatId> {
        match self.seats.as_ref()?.slots.get(id.0 as usize)? {
            Slot::Taken { prev, .. } => seat(*prev),
            Slot::Free { .. } => None,
        }
    }

    /// The value at a seat that was not removed.
    pub(crate) fn get(&self, id: SeatId) -> Option<&T> {
        self.seats.as_ref()?.get(id.0)
    }

    /// The value at a seat that was not removed.
    pub(crate) fn get_mut(&mut self, id: SeatId) -> Option<&mut T> {
        match self.seats.as_mut()?.slots.get_mut(id.0 as usize)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// The seat behind so many others. It costs as much as that differs from the last time.
    pub(crate) fn nth(&mut self, many: usize) -> Option<SeatId> {
        let seats = self.seats.as_mut()?;
        while seats.marks[COUNTED].before as usize > many {
            seats.step_back(COUNTED);
        }
        while (seats.marks[COUNTED].before as usize) < many && seats.marks[COUNTED].at != NONE {
            seats.step(COUNTED);
        }
        let Mark { at, before } = seats.marks[COUNTED];
        seat(at).filter(|_| before as usize == many)
    }
}

impl<T: Stands> Line<T> {
    pub(crate) fn push(&mut self, value: T) -> SeatId {
        let seats = self.seats.get_or_insert_default();
        self.has_new_head |= seats.queued == 0;
        SeatId(seats.push(value))
    }

    /// Takes a seat out of the line; its value stays until [`Line::remove`].
    pub(crate) fn leave(&mut self, id: SeatId) {
        let Some(seats) = &mut self.seats else { return };
        self.has_new_head |= seats.head == id.0;
        seats.leave(id.0);
    }

    /// Gives the seat up, in the line or not.
    #[inline]
    pub(crate) fn remove(&mut self, id: SeatId) -> Option<T> {
        self.leave(id);
        let seats = self.seats.as_mut()?;
        let value = seats.remove(id.0)?;
        if seats.taken == 0 {
            self.seats = None;
        }
        Some(value)
    }
}

impl<T> Seats<T> {
    fn get(&self, id: u32) -> Option<&T> {
        match self.slots.get(id as usize)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// Moves a mark behind the seat that is the first behind it.
    fn step(&mut self, mark: usize) {
        let at = self.marks[mark].at;
        let Slot::Taken { next, before, .. } = &mut self.slots[at as usize] else { return };
        before[mark] = true;
        self.marks[mark] = Mark { at: *next, before: self.marks[mark].before + 1 };
    }

    /// Moves a mark before the last seat before it.
    fn step_back(&mut self, mark: usize) {
        let at = match self.marks[mark].at {
            NONE => self.tail,
            at => *self.links(at).0,
        };
        if let Slot::Taken { before, .. } = &mut self.slots[at as usize] {
            before[mark] = false;
        }
        self.marks[mark] = Mark { at, before: self.marks[mark].before - 1 };
    }

    fn links(&mut self, id: u32) -> (&mut u32, &mut u32) {
        match &mut self.slots[id as usize] {
            Slot::Taken { prev, next, .. } => (prev, next),
            Slot::Free { .. } => unreachable!("a free slot is never linked"),
        }
    }
}

impl<T: Stands> Seats<T> {
    fn push(&mut self, value: T) -> u32 {
        self.hasty += u32::from(value.is_hasty());
        let before = [false; 2];
        let slot = Slot::Taken { prev: self.tail, next: NONE, queued: true, before, value };
        let id = if self.free == NONE {
            self.slots.push(slot);
            // The line is bounded far below 2^32 by the client's `waiters_per_key_max`.
            u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
        } else {
            let id = self.free;
            if let Slot::Free { next } = self.slots[id as usize] {
                self.free = next;
            }
            self.slots[id as usize] = slot;
            id
        };
        match self.tail {
            NONE => self.head = id,
            tail => *self.links(tail).1 = id,
        }
        self.tail = id;
        self.queued += 1;
        self.taken += 1;
        for mark in &mut self.marks {
            if mark.at == NONE {
                mark.at = id;
            }
        }
        self.extend_run();
        id
    }

    fn leave(&mut self, id: u32) {
        let Some(Slot::Taken { prev, next, queued, before, value }) =
            self.slots.get_mut(id as usize)
        else {
            return;
        };
        if !std::mem::take(queued) {
            return;
        }
        let (prev, next) = (std::mem::replace(prev, NONE), std::mem::replace(next, NONE));
        let (was_before, is_hasty) = (std::mem::take(before), value.is_hasty());
        match prev {
            NONE => self.head = next,
            prev => *self.links(prev).1 = next,
        }
        match next {
            NONE => self.tail = prev,
            next => *self.links(next).0 = prev,
        }
        self.queued -= 1;
        self.hasty -= u32::from(is_hasty);
        for (mark, was_before) in self.marks.iter_mut().zip(was_before) {
            if was_before {
                mark.before -= 1;
            } else if mark.at == id {
                mark.at = next;
            }
        }
        self.extend_run();
    }

    // The value is not to be moved about.
    #[inline]
    fn remove(&mut self, id: u32) -> Option<T> {
        let (slot, free) = (self.slots.get_mut(id as usize)?, Slot::Free { next: self.free });
        if matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let Slot::Taken { value, .. } = std::mem::replace(slot, free) else { return None };
        self.free = id;
        self.taken -= 1;
        Some(value)
    }

    /// Each seat is passed once, as it stays in the run until it leaves the line.
    fn extend_run(&mut self) {
        while let Mark { at, before } = self.marks[RUN]
            && at != NONE
        {
            let (first, next) = (self.get(self.head), self.get(at));
            let is_like = first.zip(next).is_some_and(|(first, next)| first.is_like(next));
            if before > 0 && !is_like {
                return;
            }
            self.step(RUN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// By tens, the odd ones in haste.
    impl Stands for u32 {
        fn is_like(&self, other: &Self) -> bool {
            self / 10 == other / 10
        }

        fn is_hasty(&self) -> bool {
            self % 2 == 1
        }
    }

    fn order(line: &Line<u32>) -> Vec<u32> {
        line.iter().copied().collect()
    }

    #[test]
    fn a_seat_that_left_the_line_keeps_its_value_until_removed() {
        let mut line = Line::new();
        let (a, b) = (line.push(1), line.push(2));
        line.leave(a);
        assert_eq!((order(&line), line.get(a), line.len()), (vec![2], Some(&1), 1));
        assert_eq!((line.remove(a), line.remove(a)), (Some(1), None));
        assert_eq!(line.remove(b), Some(2));
        assert!(line.is_empty() && line.head().is_none());
    }

    proptest! {
        #[test]
        fn it_keeps_the_order_of_a_plain_queue(
            steps in prop::collection::vec(
                (0_u8..3, any::<prop::sample::Index>(), 0_u32..20),
                0..200,
            ),
        ) {
            let (mut line, mut model) = (Line::new(), VecDeque::new());
            let mut head = None;
            for (step, index, value) in steps {
                if step == 0 || model.is_empty() {
                    model.push_back((line.push(value), value));
                } else {
                    let at = if step == 1 { 0 } else { index.index(model.len()) };
                    let (id, value) = model.remove(at).unwrap();
                    prop_assert_eq!(line.remove(id), Some(value));
                }
                prop_assert_eq!(order(&line), model.iter().map(|m| m.1).collect::<Vec<_>>());
                prop_assert_eq!(line.len(), model.len());
                let first = model.front().map(|(_, first)| *first);
                let is_like = |(_, other): &&(SeatId, u32)| first.is_some_and(|it| it.is_like(other));
                let run = model.iter().take_while(is_like).count();
                prop_assert_eq!(line.run(), run);
                prop_assert_eq!(line.behind_run(), model.get(run).map(|seat| seat.0));
                let hasty = model.iter().filter(|(_, value)| value.is_hasty()).count();
                prop_assert_eq!(line.hasty(), hasty);
                let nth = index.index(model.len() + 1);
                prop_assert_eq!(line.nth(nth), model.get(nth).map(|seat| seat.0));
                let now = model.front().map(|seat| seat.0);
                prop_assert!(line.has_new_head() || now == head, "it has another head");
                head = now;
                // A held key without waiters keeps no memory for them.
                prop_assert_eq!(line.seats.is_none(), model.is_empty());
            }
        }
    }
}
