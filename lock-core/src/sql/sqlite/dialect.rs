//! The statements over the connection.
//!
//! All rows of a statement are read, never only the first: what is written is committed when the
//! statement has ended, and an error then (the disk is full) is told by its last step alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::link::Link;
use super::statements::Statements;
use crate::backend::{ClaimId, Fault};
use crate::key::Key;
use crate::sql::dialect::{Ask, Dialect, Seen, Taken};
use crate::sql::row::{Row, ms};
use crate::sql::schema::Schema;
use crate::token::TokenBlock;

/// The most rows that one statement of a sweep deletes.
const SWEEP_ROWS_MAX: i64 = 100;

/// SQLite as the store needs it.
#[derive(Debug)]
pub(in crate::sql) struct SqliteDialect {
    link: Link,
    texts: Statements,
}

fn text(text: &Arc<str>) -> AssertSqlSafe<Arc<str>> {
    // Of constants and the name of a table, which was checked.
    AssertSqlSafe(text.clone())
}

impl SqliteDialect {
    pub(super) fn new(link: Link) -> Self {
        let texts = Statements::new(link.schema());
        Self { link, texts }
    }

    pub(super) fn requests(&self) -> u64 {
        self.link.requests()
    }

    /// One that says in one row what it did, or in none that it did nothing.
    async fn short(
        &self,
        statement: &Arc<str>,
        ask: &Ask,
        by: Instant,
    ) -> Result<Option<Taken>, Fault> {
        let rows = self.link.run(by, |connection| {
            let query = sqlx::query(text(statement))
                .bind(ask.key.to_string())
                .bind(ask.claim.to_string())
                .bind(ask.about.to_string())
                .bind(ms(ask.lease))
                .bind(i64::from(ask.tokens_max));
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.first().map(taken).transpose()
            })
        });
        rows.await
    }
}

impl Dialect for SqliteDialect {
    fn schema(&self) -> &Schema {
        self.link.schema()
    }

    async fn take(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.short(&self.texts.take, ask, by).await
    }

    async fn renew(&self, ask: &Ask, by: Instant) -> Result<Option<Taken>, Fault> {
        self.short(&self.texts.renew, ask, by).await
    }

    async fn give_back(&self, key: &Key, claim: ClaimId, by: Instant) -> Result<bool, Fault> {
        let done = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.give_back))
                .bind(key.to_string())
                .bind(claim.to_string());
            Box::pin(async move { Ok(query.execute(connection).await?.rows_affected() > 0) })
        });
        done.await
    }

    async fn read(&self, key: &Key, by: Instant) -> Result<Seen, Fault> {
        let seen = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.read)).bind(key.to_string());
            Box::pin(async move {
                let found = query.fetch_one(connection).await?;
                let is_there = found.try_get::<Option<i64>, _>(0)?.is_some();
                let row = is_there.then(|| row(&found)).transpose()?;
                let now: i64 = found.try_get(8)?;
                Ok(Seen { row, now: Duration::from_millis(u64::try_from(now).unwrap_or(0)) })
            })
        });
        seen.await
    }

    async fn swap(
        &self,
        key: &Key,
        version: Option<i64>,
        row: &Row,
        by: Instant,
    ) -> Result<bool, Fault> {
        let statement = match version {
            Some(_) => &self.texts.update,
            None => &self.texts.insert,
        };
        let done = self.link.run(by, |connection| {
            let query = sqlx::query(text(statement))
                .bind(key.to_string())
                .bind(row.version)
                .bind(row.fence)
                .bind(row.fences)
                .bind(row.holder.clone())
                .bind(row.about.clone())
                .bind(row.until)
                .bind(row.holders.clone())
                .bind(row.line.clone());
            let query = match version {
                Some(version) => query.bind(version),
                None => query,
            };
            Box::pin(async move { Ok(query.execute(connection).await?.rows_affected() > 0) })
        });
        done.await
    }

    async fn read_all(&self, keys: &[Key], by: Instant) -> Result<Vec<(String, Row)>, Fault> {
        let list = json(keys);
        let rows = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.read_all)).bind(list.clone());
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.iter().map(|found| Ok((found.try_get(8)?, row(found)?))).collect()
            })
        });
        rows.await
    }

    async fn mark(&self, by: Instant) -> Result<Option<i64>, Fault> {
        if self.link.is_private() {
            return Ok(None);
        }
        let mark = self.link.run(by, |connection| {
            Box::pin(async {
                let row = sqlx::query("PRAGMA data_version").fetch_one(connection).await?;
                row.try_get(0).map(Some)
            })
        });
        mark.await
    }

    async fn sweep(&self, idle: Duration, by: Instant) -> Result<u64, Fault> {
        let gone = self.link.run(by, |connection| {
            let query = sqlx::query(text(&self.texts.sweep)).bind(ms(idle)).bind(SWEEP_ROWS_MAX);
            Box::pin(async move { Ok(query.execute(connection).await?.rows_affected()) })
        });
        gone.await
    }
}

fn taken(row: &SqliteRow) -> Result<Taken, sqlx::Error> {
    let (version, last, size): (i64, i64, i64) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (last, size) = (u64::try_from(last).unwrap_or(0), u64::try_from(size).unwrap_or(0));
    let tokens = TokenBlock::new((last + 1).saturating_sub(size), last);
    Ok(Taken { version, tokens, wanted: row.try_get::<i64, _>(3)? != 0 })
}

fn row(found: &SqliteRow) -> Result<Row, sqlx::Error> {
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

/// A list of keys for `json_each`.
fn json(keys: &[Key]) -> String {
    let mut list = String::from("[");
    for (number, key) in keys.iter().enumerate() {
        if number > 0 {
            list.push(',');
        }
        list.push('"');
        // A key has no control characters.
        for c in key.as_str().chars() {
            if matches!(c, '"' | '\\') {
                list.push('\\');
            }
            list.push(c);
        }
        list.push('"');
    }
    list.push(']');
    list
}
