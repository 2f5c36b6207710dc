//! Readers who hold a key beside another one. Any of them may go at any time, at the same cost.

use super::*;

/// Readers in the order of their tokens.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// In the order of their tokens. One who went stays, without a guard, until half of them are
    /// gone: to close its gap would move all behind it.
    list: Vec<Holder>,
    gone: usize,
    /// When holds are over by their limit, and their tokens.
    limits: BTreeSet<(Instant, u64)>,
}

impl Readers {
    pub(super) fn len(&self) -> usize {
        self.list.len() - self.gone
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.list.iter().filter(|reader| reader.guards > 0)
    }

    /// One more, under a greater token than all others.
    pub(super) fn push(&mut self, reader: Holder) {
        if let Some(until) = reader.until {
            self.limits.insert((until, reader.token));
        }
        self.list.push(reader);
    }

    pub(super) fn get(&self, token: u64) -> Option<&Holder> {
        self.list.get(self.at(token)?)
    }

    pub(super) fn get_mut(&mut self, token: u64) -> Option<&mut Holder> {
        let at = self.at(token)?;
        self.list.get_mut(at)
    }

    fn at(&self, token: u64) -> Option<usize> {
        let at = self.list.binary_search_by_key(&token, |reader| reader.token).ok()?;
        self.list.get(at).filter(|reader| reader.guards > 0).map(|_| at)
    }

    /// The first hold limit of all.
    pub(super) fn limit(&self) -> Option<(Instant, u64)> {
        self.limits.first().copied()
    }

    /// The last one goes.
    pub(super) fn pop(&mut self) -> Option<Holder> {
        let reader = loop {
            let last = self.list.pop()?;
            if last.guards > 0 {
                break last;
            }
            self.gone -= 1;
        };
        self.forget_limit(&reader);
        Some(reader)
    }

    /// One goes.
    pub(super) fn take(&mut self, token: u64) -> Option<Holder> {
        let at = self.at(token)?;
        let reader = self.list.get_mut(at)?;
        let reader = Holder { guards: std::mem::take(&mut reader.guards), ..*reader };
        self.gone += 1;
        if self.gone * 2 > self.list.len() {
            self.list.retain(|reader| {
                effort::spend();
                reader.guards > 0
            });
            self.gone = 0;
        }
        self.forget_limit(&reader);
        Some(reader)
    }

    fn forget_limit(&mut self, reader: &Holder) {
        if let Some(until) = reader.until {
            self.limits.remove(&(until, reader.token));
        }
    }
}
