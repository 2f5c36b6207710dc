//! What is remembered, by record and by the end of its life.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use crate::ground::Plus as _;
use crate::records::store::MARK_TTL;
use crate::records::{ClaimRecord, Fingerprint, OnUnknown, Outcome, RecordId};
use crate::token::FencingToken;

/// How many marks of aborts there are at most; beyond, the oldest goes. Few are enough: what is
/// asked of a store in this process is not long on its way.
const MARKS_MAX: usize = 1 << 12;

#[derive(Default)]
pub(super) struct Records {
    pub(super) by_id: HashMap<RecordId, Record>,
    /// All records by the end of their lives.
    by_end: BTreeSet<(Instant, RecordId)>,
    /// The greatest token under which each record was aborted of late, and until when it is kept.
    marks: HashMap<RecordId, (FencingToken, Instant)>,
    /// Marks in the order of their ends; a mark that was renewed is here more than once.
    marks_by_end: VecDeque<(Instant, RecordId)>,
}

pub(super) struct Record {
    pub(super) fingerprint: Fingerprint,
    pub(super) token: FencingToken,
    pub(super) state: State,
    pub(super) until: Instant,
}

pub(super) enum State {
    InFlight { since: Instant, replaced: Option<Replaced> },
    Completed(Outcome),
}

/// An execution without an outcome that another one took over from, and that is so again when
/// that one is aborted.
#[derive(Clone, Copy)]
pub(super) struct Replaced {
    pub(super) token: FencingToken,
    /// The first one in the row, if there is another: not all are remembered.
    pub(super) first: Option<FencingToken>,
    pub(super) since: Instant,
    pub(super) until: Instant,
}

impl Records {
    pub(super) fn put(&mut self, id: RecordId, claim: &ClaimRecord, state: State, now: Instant) {
        let until = now.plus(claim.ttl);
        let ClaimRecord { fingerprint, token, .. } = *claim;
        let before = self.by_id.insert(id, Record { fingerprint, token, state, until });
        if let Some(before) = before {
            self.by_end.remove(&(before.until, id));
        }
        self.by_end.insert((until, id));
    }

    pub(super) fn remove(&mut self, id: RecordId) {
        if let Some(record) = self.by_id.remove(&id) {
            self.by_end.remove(&(record.until, id));
            self.shrink();
        }
    }

    /// The execution that one took over from is without an outcome again.
    pub(super) fn put_back(
        &mut self,
        id: RecordId,
        fingerprint: Fingerprint,
        of: Replaced,
        now: Instant,
    ) {
        let (ttl, on_unknown) = (of.until.duration_since(now), OnUnknown::default());
        let replaced = of.first.map(|token| Replaced { token, first: None, ..of });
        let claim = ClaimRecord { fingerprint, token: of.token, ttl, on_unknown };
        self.put(id, &claim, State::InFlight { since: of.since, replaced }, now);
    }

    pub(super) fn mark(&self, id: RecordId) -> Option<FencingToken> {
        self.marks.get(&id).map(|(token, _)| *token)
    }

    pub(super) fn set_mark(&mut self, id: RecordId, token: FencingToken, now: Instant) {
        let token = self.mark(id).map_or(token, |mark| mark.max(token));
        let until = now.plus(MARK_TTL);
        self.marks.insert(id, (token, until));
        self.marks_by_end.push_back((until, id));
        if self.marks_by_end.len() > MARKS_MAX {
            self.drop_oldest_mark();
        }
    }

    fn drop_oldest_mark(&mut self) {
        let Some((until, id)) = self.marks_by_end.pop_front() else { return };
        if self.marks.get(&id).is_some_and(|mark| mark.1 == until) {
            self.marks.remove(&id);
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while self.marks_by_end.front().is_some_and(|(until, _)| *until <= now) {
            self.drop_oldest_mark();
        }
        while let Some(&(until, id)) = self.by_end.first()
            && until <= now
        {
            self.by_end.pop_first();
            self.by_id.remove(&id);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.by_id.is_empty() {
            self.by_id.shrink_to(64);
        }
        if self.marks.is_empty() {
            self.marks.shrink_to(64);
            self.marks_by_end.shrink_to(64);
        }
    }
}
