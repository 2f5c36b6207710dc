//! The rows, by record and by the end of their lives.

use std::collections::{BTreeSet, HashMap};

use crate::records::RecordId;
use crate::records::row::{Row, State};

/// The largest number of marks of aborts; beyond it, the oldest goes. Few are enough, as a request
/// to a store in this process is not long on its way.
const MARKS_MAX: usize = 1 << 12;

#[derive(Default)]
pub(super) struct Rows {
    by_id: HashMap<RecordId, Row>,
    /// All but the marks, by the end of their lives.
    records: BTreeSet<(i64, RecordId)>,
    /// The marks, in the same way.
    marks: BTreeSet<(i64, RecordId)>,
}

impl Rows {
    pub(super) fn get(&self, id: RecordId) -> Option<&Row> {
        self.by_id.get(&id)
    }

    /// How many records there are.
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    pub(super) fn put(&mut self, id: RecordId, row: Row) {
        self.remove(id);
        self.ends(&row).insert((row.until, id));
        self.by_id.insert(id, row);
        if self.marks.len() > MARKS_MAX
            && let Some(&(_, oldest)) = self.marks.first()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, id: RecordId) {
        if let Some(row) = self.by_id.remove(&id) {
            self.ends(&row).remove(&(row.until, id));
        }
    }

    fn ends(&mut self, row: &Row) -> &mut BTreeSet<(i64, RecordId)> {
        match row.state {
            State::Mark => &mut self.marks,
            State::InFlight { .. } | State::Completed(_) => &mut self.records,
        }
    }

    /// Forgets those whose life is over.
    pub(super) fn expire(&mut self, now: i64) {
        for ends in [&mut self.records, &mut self.marks] {
            while let Some(&(until, id)) = ends.first()
                && until <= now
            {
                ends.pop_first();
                self.by_id.remove(&id);
            }
        }
        if self.by_id.is_empty() {
            self.by_id.shrink_to(64);
        }
    }
}
