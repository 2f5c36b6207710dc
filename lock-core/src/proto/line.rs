//! A FIFO whose members can leave from the middle in constant time. It keeps the seat of a member
//! that left until its owner has read what became of it.

/// Names a seat until [`Line::remove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatId(u32);

const NONE: u32 = u32::MAX;

#[derive(Debug)]
enum Slot<T> {
    Free { next: u32 },
    Taken { prev: u32, next: u32, queued: bool, value: T },
}

/// A line of `T`, each in a seat of its own.
#[derive(Debug)]
pub(crate) struct Line<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    head: u32,
    tail: u32,
    queued: u32,
    /// Seats that were not removed, in the line or not.
    taken: u32,
}

impl<T> Line<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, head: NONE, tail: NONE, queued: 0, taken: 0 }
    }

    /// How many stand in the line; seats that left it but were not removed do not count.
    pub(crate) fn len(&self) -> usize {
        self.queued as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    pub(crate) fn push(&mut self, value: T) -> SeatId {
        let slot = Slot::Taken { prev: self.tail, next: NONE, queued: true, value };
        let id = if self.free == NONE {
            if self.slots.is_empty() {
                // Most keys never have a second waiter.
                self.slots.reserve_exact(1);
            }
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
        SeatId(id)
    }

    pub(crate) fn head(&self) -> Option<SeatId> {
        (self.head != NONE).then_some(SeatId(self.head))
    }

    pub(crate) fn tail(&self) -> Option<SeatId> {
        (self.tail != NONE).then_some(SeatId(self.tail))
    }

    /// Who stands behind `id` in the line.
    pub(crate) fn after(&self, id: SeatId) -> Option<SeatId> {
        match self.slots[id.0 as usize] {
            Slot::Taken { next, .. } if next != NONE => Some(SeatId(next)),
            _ => None,
        }
    }

    /// The value at a seat that was not removed.
    pub(crate) fn get(&self, id: SeatId) -> Option<&T> {
        match self.slots.get(id.0 as usize)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// The value at a seat that was not removed.
    pub(crate) fn get_mut(&mut self, id: SeatId) -> Option<&mut T> {
        match self.slots.get_mut(id.0 as usize)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// Takes a seat out of the line; its value stays until [`Line::remove`].
    pub(crate) fn leave(&mut self, id: SeatId) {
        let Slot::Taken { prev, next, queued, .. } = &mut self.slots[id.0 as usize] else { return };
        if !std::mem::take(queued) {
            return;
        }
        let (prev, next) = (std::mem::replace(prev, NONE), std::mem::replace(next, NONE));
        match prev {
            NONE => self.head = next,
            prev => *self.links(prev).1 = next,
        }
        match next {
            NONE => self.tail = prev,
            next => *self.links(next).0 = prev,
        }
        self.queued -= 1;
    }

    /// Gives the seat up, in the line or not.
    pub(crate) fn remove(&mut self, id: SeatId) -> Option<T> {
        self.leave(id);
        let slot = self.slots.get_mut(id.0 as usize)?;
        if matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let taken = std::mem::replace(slot, Slot::Free { next: self.free });
        self.free = id.0;
        self.taken -= 1;
        if self.taken == 0 {
            // A held key without waiters keeps no memory for them.
            self.slots = Vec::new();
            self.free = NONE;
        }
        match taken {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    fn links(&mut self, id: u32) -> (&mut u32, &mut u32) {
        match &mut self.slots[id as usize] {
            Slot::Taken { prev, next, .. } => (prev, next),
            Slot::Free { .. } => unreachable!("a free slot is never linked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn order(line: &Line<u32>) -> Vec<u32> {
        let mut seats = Vec::new();
        let mut at = line.head();
        while let Some(id) = at {
            seats.extend(line.get(id).copied());
            at = line.after(id);
        }
        seats
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
            steps in prop::collection::vec((0_u8..3, any::<prop::sample::Index>()), 0..200),
        ) {
            let (mut line, mut model, mut count) = (Line::new(), VecDeque::new(), 0);
            for (step, index) in steps {
                if step == 0 || model.is_empty() {
                    model.push_back((line.push(count), count));
                    count += 1;
                } else {
                    let at = if step == 1 { 0 } else { index.index(model.len()) };
                    let (id, value) = model.remove(at).unwrap();
                    prop_assert_eq!(line.remove(id), Some(value));
                }
                prop_assert_eq!(order(&line), model.iter().map(|m| m.1).collect::<Vec<_>>());
                prop_assert_eq!(line.len(), model.len());
                // A held key without waiters keeps no memory for them.
                prop_assert_eq!(line.slots.capacity() == 0, model.is_empty());
            }
        }
    }
}
