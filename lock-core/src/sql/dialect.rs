//! What a database spells its own way: some statements, each of which commits by itself.

use std::future::Future;
use std::time::Duration;

use super::row::Row;
use super::schema::Schema;
use crate::backend::{ClaimId, Fault};
use crate::key::Key;
use crate::token::TokenBlock;

/// A database as the store needs it. Times are of its own clock, since 1970.
///
/// Each of these is bounded in time, runs to its end whoever drops it, and tries again by itself
/// while the database is busy with others. A fault of one that is not
/// [`unsent`](Fault::is_unsent) may have taken effect.
pub(super) trait Dialect: Send + Sync + std::fmt::Debug + 'static {
    /// The names of the tables.
    fn schema(&self) -> &Schema;

    /// Grants a key that nobody holds and nobody waits for, with tokens as `proto/tokens` reserves
    /// them; nothing is written otherwise.
    fn take(
        &self,
        key: &Key,
        ask: &Ask,
    ) -> impl Future<Output = Result<Option<Taken>, Fault>> + Send;

    /// The row of a key, and the time.
    fn read(&self, key: &Key) -> impl Future<Output = Result<Seen, Fault>> + Send;

    /// Puts a row in place of the one that was read; `false` where that is another by now.
    fn swap(
        &self,
        key: &Key,
        seen: Option<i64>,
        row: &Row,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Extends the lease of a claim that holds the key alone and whom nobody has asked anything;
    /// nothing is written otherwise. It never makes a row.
    fn renew(
        &self,
        key: &Key,
        ask: &Ask,
    ) -> impl Future<Output = Result<Option<Taken>, Fault>> + Send;

    /// Frees a key that this claim holds alone and nobody waits for; `false` where it is not so.
    fn give_back(
        &self,
        key: &Key,
        claim: ClaimId,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;
}

/// A claim that asks for a key by the short way.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) claim: ClaimId,
    pub(super) lease: Duration,
    pub(super) tokens_max: u32,
    /// What it is for, for people.
    pub(super) about: &'static str,
}

/// What one statement granted or extended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) tokens: TokenBlock,
    pub(super) valid_for: Duration,
    /// Others stand in the line.
    pub(super) wanted: bool,
}

/// A row, if there is one, and when it was read.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) row: Option<Row>,
    pub(super) now: Duration,
}
