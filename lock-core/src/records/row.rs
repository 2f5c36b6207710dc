//! A record as a row, and what each verb makes of it: pure, for the store in memory and for those that
//! write by compare-and-swap. Times are milliseconds of the store's clock.

use std::time::Duration;

use super::fingerprint::Fingerprint;
use super::store::{ClaimRecord, Claimed, Found, MARK_TTL, OnUnknown, Outcome, Written};
use crate::token::FencingToken;

/// The row of one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its execution's; of a mark, the greatest that was aborted.
    pub(crate) token: FencingToken,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) state: State,
    /// When it was claimed.
    pub(crate) since: i64,
    /// When its life ends.
    pub(crate) until: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// ## InFlight => (InFlight | Completed | Mark)
    InFlight {
        replaced: Option<Replaced>,
        /// The greatest token that was aborted since: a claim under it is late.
        barred: Option<FencingToken>,
    },
    /// It stays so to the end of its life.
    Completed(Outcome),
    /// ## Mark => (InFlight | Mark)
    ///
    /// Nothing, for all but late claims.
    Mark,
}

/// An execution without an outcome that another one took over from, and that is so again when
/// that one is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) token: FencingToken,
    /// The first one in the row, if there is another: not all are remembered.
    pub(crate) first: Option<FencingToken>,
    pub(crate) since: i64,
    pub(crate) until: i64,
}

/// An answer, and the row that is to be there before it is given.
pub(crate) type Step<A> = (A, Option<Row>);

impl Row {
    /// Whether the row lives on.
    pub(crate) fn lives(&self, now: i64) -> bool {
        self.until > now
    }

    fn age(&self, now: i64) -> Duration {
        millis(now.saturating_sub(self.since))
    }
}

fn millis(time: i64) -> Duration {
    Duration::from_millis(u64::try_from(time).unwrap_or_default())
}

fn after(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}

/// [`RecordStore::peek`](super::RecordStore::peek).
pub(crate) fn peek(row: Option<&Row>, fingerprint: Fingerprint, now: i64) -> Found {
    let Some(row) = row.filter(|row| row.lives(now)) else { return Found::Absent };
    match &row.state {
        State::Mark => Found::Absent,
        _ if row.fingerprint != fingerprint => Found::Mismatch,
        State::InFlight { .. } => Found::InFlight { age: row.age(now), token: row.token },
        State::Completed(Outcome::Payload(payload)) => Found::Done(payload.clone()),
        State::Completed(Outcome::WithoutPayload) => Found::WithoutPayload,
    }
}

/// [`RecordStore::claim`](super::RecordStore::claim).
pub(crate) fn claim(row: Option<&Row>, claim: &ClaimRecord, now: i64) -> Step<Claimed> {
    let ClaimRecord { fingerprint, token, ttl, on_unknown } = *claim;
    let until = after(now, ttl);
    let claimed = |replaced: Option<Replaced>| {
        let state = State::InFlight { replaced, barred: None };
        let row = Row { token, fingerprint, state, since: now, until };
        (Claimed::Claimed { replaced: replaced.map(|it| it.token) }, Some(row))
    };
    let Some(row) = row.filter(|row| row.lives(now)) else { return claimed(None) };
    let (replaced, barred) = match &row.state {
        State::Mark if row.token >= token => {
            return (Claimed::InFlight { age: Duration::ZERO, token: row.token }, None);
        }
        State::Mark => return claimed(None),
        _ if row.fingerprint != fingerprint => return (Claimed::Mismatch, None),
        State::Completed(Outcome::Payload(payload)) => {
            return (Claimed::Done(payload.clone()), None);
        }
        State::Completed(Outcome::WithoutPayload) => return (Claimed::WithoutPayload, None),
        State::InFlight { replaced, barred } => (replaced, barred),
    };
    let age = row.age(now);
    if row.token > token {
        return (Claimed::InFlight { age, token: row.token }, None);
    }
    if row.token == token {
        // Asked again: as it was answered before.
        let replaced = replaced.map(|it| it.token);
        return (Claimed::Claimed { replaced }, Some(Row { until, ..row.clone() }));
    }
    if let Some(token) = barred.filter(|barred| *barred >= token) {
        return (Claimed::InFlight { age, token }, None);
    }
    if on_unknown == OnUnknown::Refuse {
        return (Claimed::Unknown { age }, None);
    }
    let first = replaced.and_then(|before| before.first.or(Some(before.token)));
    claimed(Some(Replaced { token: row.token, first, since: row.since, until: row.until }))
}

/// [`RecordStore::complete`](super::RecordStore::complete).
pub(crate) fn complete(
    row: Option<&Row>,
    token: FencingToken,
    outcome: &Outcome,
    ttl: Duration,
    now: i64,
) -> Step<Written> {
    let Some(row) = row.filter(|row| row.lives(now) && row.token == token) else {
        return (Written::Stale, None);
    };
    match &row.state {
        State::Completed(before) if before == outcome => (Written::Yes, None),
        State::Completed(_) | State::Mark => (Written::Stale, None),
        State::InFlight { .. } => {
            let state = State::Completed(outcome.clone());
            (Written::Yes, Some(Row { state, until: after(now, ttl), ..*row }))
        }
    }
}

/// [`RecordStore::abort`](super::RecordStore::abort).
pub(crate) fn abort(row: Option<&Row>, token: FencingToken, now: i64) -> Step<Written> {
    let mark = |token, fingerprint| {
        let until = after(now, MARK_TTL);
        (Written::Yes, Some(Row { token, fingerprint, state: State::Mark, since: now, until }))
    };
    let Some(row) = row.filter(|row| row.lives(now)) else {
        return mark(token, Fingerprint::new([0; 32]));
    };
    let (replaced, barred) = match &row.state {
        State::Mark => return mark(row.token.max(token), row.fingerprint),
        State::InFlight { replaced, barred } if row.token <= token => (replaced, barred),
        State::InFlight { .. } | State::Completed(_) => return (Written::Stale, None),
    };
    let greatest = barred.map_or(token, |barred| barred.max(token));
    let back = match replaced {
        // Nothing of this token is there: another one's record only learns of it.
        _ if row.token < token => {
            let state = State::InFlight { replaced: *replaced, barred: Some(greatest) };
            Row { state, ..*row }
        }
        Some(before) if before.until > now => {
            let replaced = before.first.map(|token| Replaced { token, first: None, ..*before });
            let state = State::InFlight { replaced, barred: Some(greatest) };
            let Replaced { token, since, until, .. } = *before;
            Row { token, fingerprint: row.fingerprint, state, since, until }
        }
        _ => return mark(greatest, row.fingerprint),
    };
    (Written::Yes, Some(back))
}
