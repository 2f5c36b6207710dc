//! The answers of the statements over the lease rows, read the same way from every database.

use std::time::Duration;

use sqlx::{ColumnIndex, Decode, Type};

use super::dialect::{Named, Seen, Taken};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::row;
use super::row::Row;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::backend::ClaimId;
use crate::token::TokenBlock;

/// The columns of a lease row but for its key, in the order in which they are read.
pub(super) const COLUMNS: &str = "version, fence, fences, holder, about, until, holders, line";

/// The place of the column behind [`COLUMNS`].
const BEHIND: usize = 8;

/// A row of a database.
pub(super) struct Found<'r, R>(pub(super) &'r R);

impl<'r, R> Found<'r, R>
where
    R: sqlx::Row,
    usize: ColumnIndex<R>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
{
    /// `version, fence, fences, line <> ''`.
    pub(super) fn taken(&self) -> Result<Taken, sqlx::Error> {
        let whole = |place| self.0.try_get::<i64, _>(place);
        let (last, size) = (whole(1)?, whole(2)?);
        let (last, size) = (u64::try_from(last).unwrap_or(0), u64::try_from(size).unwrap_or(0));
        let tokens = TokenBlock::new((last + 1).saturating_sub(size), last);
        Ok(Taken { version: whole(0)?, tokens, wanted: self.0.try_get(3)? })
    }

    /// As [`taken`](Self::taken), and at this place the claim that was given it.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn renewed(&self, claim: usize) -> Result<(ClaimId, Taken), sqlx::Error> {
        let claim = row::claim(&self.0.try_get::<String, _>(claim)?);
        Ok((claim.map_err(|what| sqlx::Error::Decode(what.into()))?, self.taken()?))
    }

    /// [`COLUMNS`].
    pub(super) fn row(&self) -> Result<Row, sqlx::Error> {
        let Self(found) = self;
        Ok(Row {
            version: found.try_get(0)?,
            fence: found.try_get(1)?,
            fences: found.try_get(2)?,
            holder: found.try_get(3)?,
            about: found.try_get(4)?,
            until: found.try_get(5)?,
            holders: found.try_get(6)?,
            line: found.try_get(7)?,
        })
    }

    /// [`COLUMNS`], all of them nothing where there is no row, and the time.
    pub(super) fn seen(&self) -> Result<Seen, sqlx::Error> {
        let is_there = self.0.try_get::<Option<i64>, _>(0)?.is_some();
        let row = is_there.then(|| self.row()).transpose()?;
        Ok(Seen { row, now: self.now()? })
    }

    /// [`COLUMNS`], the time, and the key.
    pub(super) fn named(&self) -> Result<Named, sqlx::Error> {
        Ok((self.0.try_get(BEHIND + 1)?, self.row()?, self.now()?))
    }

    fn now(&self) -> Result<Duration, sqlx::Error> {
        let now: i64 = self.0.try_get(BEHIND)?;
        Ok(Duration::from_millis(u64::try_from(now).unwrap_or(0)))
    }
}
