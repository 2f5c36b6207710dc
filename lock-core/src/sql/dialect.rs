//! The statements that a database spells its own way. Each of them commits by itself.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::changes::{Changes, Hearing};
use super::row::Row;
use super::schema::Schema;
use crate::backend::{ClaimId, Fault};
use crate::key::Key;
use crate::token::TokenBlock;

/// A database as the store needs it. Times are of its own clock, since 1970.
///
/// All of these but [`renew_together`](Self::renew_together) are polled where it
/// [`POLLS`](Self::POLLS), and to their end. Each is over by the
/// instant that it is given, and asks again by itself while the database is busy with others. What
/// was not answered may have taken effect, unless the fault is [`unsent`](Fault::is_unsent).
pub(super) trait Dialect: Send + Sync + Debug + 'static {
    /// Where its statements are polled.
    const POLLS: Polls = Polls::AtHome;

    /// The names of the tables.
    fn schema(&self) -> &Schema;

    /// The way in which others are heard of at first.
    fn hearing(&self) -> Hearing;

    /// Begins to listen to others, if there is a way.
    fn hear(&self, _changes: &Arc<Changes>) {}

    /// Whether others are to be told of what is news to them.
    fn tells(&self) -> bool {
        false
    }

    /// Grants a key that nobody holds and nobody waits for, with tokens as
    /// `backend/register/tokens` reserves them; nothing is written otherwise.
    fn take(
        &self,
        ask: &Ask,
        by: Instant,
    ) -> impl Future<Output = Result<Option<Taken>, Fault>> + Send;

    /// Extends the lease of a claim that holds the key alone, and of whom the columns say it all;
    /// nothing is written otherwise. It never makes a row.
    fn renew(
        &self,
        ask: &Ask,
        by: Instant,
    ) -> impl Future<Output = Result<Option<Taken>, Fault>> + Send;

    /// As [`renew`](Self::renew), with other claims that are renewed just now; `None` where it has to
    /// ask alone. Whoever asks polls it, as it only waits for a statement that is sent at home, and goes
    /// on from there. So a renewal among many costs no task of its own.
    fn renew_together(
        &self,
        ask: &Ask,
        by: Instant,
    ) -> impl Future<Output = Result<Option<Taken>, Fault>> + Send {
        let _ = (ask, by);
        std::future::ready(Ok(None))
    }

    /// Frees a key that this claim holds alone and nobody waits for; `false` where it is not so.
    fn give_back(
        &self,
        key: &Key,
        claim: ClaimId,
        by: Instant,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The row of a key, and the time.
    fn read(&self, key: &Key, by: Instant) -> impl Future<Output = Result<Seen, Fault>> + Send;

    /// Puts a row in place of the one of this version, or of none; `false` where another is there
    /// by now. It `tells` others, where that can be done.
    fn swap(
        &self,
        key: &Key,
        version: Option<i64>,
        row: &Row,
        tells: bool,
        by: Instant,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The rows of some keys, each with the time at which it was so, or later.
    fn read_all(
        &self,
        keys: &[Key],
        by: Instant,
    ) -> impl Future<Output = Result<Vec<Named>, Fault>> + Send;

    /// The names of rows that are held or waited for, of those in a range: so many at most, in their
    /// order. One that was given back just now may be among them.
    fn busy(
        &self,
        within: &Within,
        most: usize,
        by: Instant,
    ) -> impl Future<Output = Result<Vec<String>, Fault>> + Send;

    /// A mark that differs from the last one if others may have written in between; `None` where
    /// there can be no others. It is asked for only while the store looks.
    fn mark(&self, by: Instant) -> impl Future<Output = Result<Option<i64>, Fault>> + Send;

    /// The name behind the next [`SWEEP_ROWS`] from this one on; `None` if there are no more.
    fn behind(
        &self,
        from: &str,
        by: Instant,
    ) -> impl Future<Output = Result<Option<String>, Fault>> + Send;

    /// Deletes the rows among these that nobody has used for so long, and whose tokens the clock has
    /// passed; how many.
    fn sweep(
        &self,
        within: &Within,
        idle: Duration,
        by: Instant,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;
}

/// How many rows one part of a sweep looks at.
pub(super) const SWEEP_ROWS: i64 = 100;

/// The names from one on, and before another.
#[derive(Debug, Clone)]
pub(super) struct Within {
    pub(super) from: String,
    pub(super) before: String,
}

impl Within {
    /// The names of the keys below a prefix, or of all.
    pub(super) fn of(prefix: Option<&Key>) -> Self {
        match prefix {
            // The byte behind `:`.
            Some(prefix) => Self { from: format!("{prefix}:"), before: format!("{prefix};") },
            // Keys are visible ASCII.
            None => Self { from: String::new(), before: "\u{7f}".into() },
        }
    }
}

/// Where statements are polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polls {
    /// On the home runtime alone: it serves the connections.
    AtHome,
    /// By the caller, too: no runtime serves them.
    #[cfg_attr(
        not(feature = "sqlite"),
        allow(dead_code, reason = "a server's connections are sockets")
    )]
    Anywhere,
}

/// A claim that asks by the short way.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) key: Key,
    pub(super) claim: ClaimId,
    pub(super) lease: Duration,
    pub(super) tokens_max: u32,
    /// Its text about itself, for people.
    pub(super) about: Arc<str>,
}

/// A hold that one statement granted or extended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) version: i64,
    pub(super) tokens: TokenBlock,
    /// Others stand in the line.
    pub(super) wanted: bool,
}

/// A row that is there: its name, what it says, and when it was read.
pub(super) type Named = (String, Row, Duration);

/// A row, if there is one, and when it was read.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) row: Option<Row>,
    pub(super) now: Duration,
}
