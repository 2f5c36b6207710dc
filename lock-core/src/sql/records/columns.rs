//! A record as columns, which are the same for every database.

use bytes::Bytes;

use super::dialect::{Unsound, Version};
use crate::records::{Fingerprint, Outcome, Replaced, Row, State};
use crate::token::FencingToken;

/// The version of the layout. Rows of another one are left alone.
pub(super) const LAYOUT: i64 = 1;

/// The names of the columns, in their order.
pub(super) const COLUMNS: [&str; 15] = [
    "id",
    "layout",
    "version",
    "state",
    "token",
    "barred",
    "since",
    "until",
    "back_token",
    "back_first",
    "back_since",
    "back_until",
    "fingerprint",
    "payload_bytes",
    "payload",
];

/// The values of `state`.
pub(super) const IN_FLIGHT: &str = "in flight";
pub(super) const DONE: &str = "done";
pub(super) const WITHOUT_PAYLOAD: &str = "without payload";
pub(super) const ABORTED: &str = "aborted";

/// A row as it is stored, but for its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) layout: i64,
    pub(super) version: i64,
    pub(super) state: String,
    pub(super) token: i64,
    pub(super) barred: Option<i64>,
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) back_token: Option<i64>,
    pub(super) back_first: Option<i64>,
    pub(super) back_since: Option<i64>,
    pub(super) back_until: Option<i64>,
    pub(super) fingerprint: Vec<u8>,
    pub(super) payload_bytes: Option<i64>,
    pub(super) payload: Option<Vec<u8>>,
}

/// A payload, and how long it is; of all else than that neither.
pub(super) fn payload_of(outcome: &Outcome) -> (&'static str, Option<&[u8]>) {
    match outcome {
        Outcome::Payload(payload) => (DONE, Some(&payload[..])),
        Outcome::WithoutPayload => (WITHOUT_PAYLOAD, None),
    }
}

pub(super) fn length(payload: Option<&[u8]>) -> Option<i64> {
    payload.map(|payload| i64::try_from(payload.len()).unwrap_or(i64::MAX))
}

impl Columns {
    pub(super) fn version(&self) -> Version {
        Version { number: self.version, token: self.token, until: self.until }
    }

    /// The columns of a row that takes the place of one of that number.
    pub(super) fn of(row: &Row, before: Option<Version>) -> Self {
        let mut columns = Self {
            layout: LAYOUT,
            version: before.map_or(1, |before| before.number.wrapping_add(1)),
            token: row.token.into(),
            since: row.since,
            until: row.until,
            fingerprint: row.fingerprint.as_bytes().to_vec(),
            ..Self::default()
        };
        let state = match &row.state {
            State::InFlight { replaced, barred } => {
                columns.barred = barred.map(i64::from);
                columns.back_token = replaced.map(|it| it.token.into());
                columns.back_first = replaced.and_then(|it| it.first).map(i64::from);
                columns.back_since = replaced.map(|it| it.since);
                columns.back_until = replaced.map(|it| it.until);
                IN_FLIGHT
            }
            State::Completed(outcome) => {
                let (state, payload) = payload_of(outcome);
                columns.payload_bytes = length(payload);
                columns.payload = payload.map(<[u8]>::to_vec);
                state
            }
            State::Mark => ABORTED,
        };
        columns.state = state.to_owned();
        columns
    }

    /// The row, if it is one that we write.
    pub(super) fn into_row(self) -> Result<Row, Unsound> {
        if self.layout != LAYOUT {
            return Err(Unsound("it was written by another version"));
        }
        let fingerprint =
            <[u8; 32]>::try_from(self.fingerprint).map_err(|_| Unsound("its fingerprint"))?;
        let is_in_flight = self.state == IN_FLIGHT;
        let backs = [self.back_token, self.back_since, self.back_until];
        let has_back = backs.iter().flatten().count();
        let strays = (!is_in_flight && (self.barred.is_some() || has_back > 0))
            || (has_back == 0 && self.back_first.is_some());
        if strays {
            return Err(Unsound("what it took over from"));
        }
        if self.state != DONE && (self.payload.is_some() || self.payload_bytes.is_some()) {
            return Err(Unsound("a payload where there is none"));
        }
        if self.payload_bytes != length(self.payload.as_deref()) {
            return Err(Unsound("the length of its payload"));
        }
        let replaced = match (self.back_token, self.back_since, self.back_until) {
            (None, None, None) => None,
            (Some(back), Some(since), Some(until)) => {
                let first = self.back_first.map(token).transpose()?;
                Some(Replaced { token: token(back)?, first, since, until })
            }
            _ => return Err(Unsound("what it took over from")),
        };
        let state = match (&*self.state, self.payload) {
            (IN_FLIGHT, _) => {
                State::InFlight { replaced, barred: self.barred.map(token).transpose()? }
            }
            (DONE, Some(payload)) => State::Completed(Outcome::Payload(Bytes::from(payload))),
            (DONE, None) => return Err(Unsound("its payload")),
            (WITHOUT_PAYLOAD, _) => State::Completed(Outcome::WithoutPayload),
            (ABORTED, _) => State::Mark,
            _ => return Err(Unsound("its state")),
        };
        Ok(Row {
            token: token(self.token)?,
            fingerprint: Fingerprint::new(fingerprint),
            state,
            since: self.since,
            until: self.until,
        })
    }
}

fn token(stored: i64) -> Result<FencingToken, Unsound> {
    let token = u64::try_from(stored).ok().filter(|token| *token > 0);
    token.map(FencingToken::from_stored).ok_or(Unsound("a token"))
}
