//! SQLite's dialect of a record.

use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::columns::{COLUMNS, Columns, IN_FLIGHT, LAYOUT, length, payload_of};
use super::dialect::{IsBusy, RecordDialect, Seen, Version};
use crate::backend::Fault;
use crate::records::{Outcome, RecordId, Row};
use crate::sql::{DatabaseError, TableName, Trouble};
use crate::token::FencingToken;

/// The time in milliseconds, one and the same throughout a statement. `unixepoch('subsec')` would
/// want a SQLite of 2023.
const NOW: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

/// How long the messages of errors say that it was asked.
const ASKED_FOR: Duration = super::store::REQUEST_WITHIN;

impl RecordDialect for Sqlite {
    fn record_table(table: &TableName) -> Vec<String> {
        // With row ids, unlike the small tables: a payload may be large, and without them a search
        // would go through those of other rows.
        let records = format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             id BLOB NOT NULL PRIMARY KEY,\n  \
             layout INTEGER NOT NULL,\n  \
             version INTEGER NOT NULL,\n  \
             state TEXT NOT NULL,\n  \
             token INTEGER NOT NULL,\n  \
             barred INTEGER,\n  \
             since INTEGER NOT NULL,\n  \
             until INTEGER NOT NULL,\n  \
             back_token INTEGER,\n  \
             back_first INTEGER,\n  \
             back_since INTEGER,\n  \
             back_until INTEGER,\n  \
             fingerprint BLOB NOT NULL,\n  \
             payload_bytes INTEGER,\n  \
             payload BLOB\n\
             ) STRICT"
        );
        let ends = format!("CREATE INDEX IF NOT EXISTS {table}_until ON {table} (until)");
        vec![records, ends]
    }

    async fn make_records<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
        makes: bool,
    ) -> Result<(), sqlx::Error> {
        let statements = if makes { Self::record_table(table) } else { Vec::new() };
        for statement in statements {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
        let look = format!("SELECT {} FROM {table} LIMIT 0", COLUMNS.join(", "));
        sqlx::query(AssertSqlSafe(look)).execute(connection).await.map(drop)
    }

    async fn read_record<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
        id: RecordId,
    ) -> Result<Seen, sqlx::Error> {
        // A row comes either way, so that the time does.
        let read =
            format!("SELECT {NOW} AS now, {table}.* FROM (SELECT 1) LEFT JOIN {table} ON id = ?");
        let read = sqlx::query(AssertSqlSafe(read)).bind(&id.as_bytes()[..]);
        let row = read.fetch_one(connection).await?;
        let now = row.try_get("now")?;
        let is_there = row.try_get::<Option<i64>, _>("version")?.is_some();
        let columns = is_there.then(|| columns(&row)).transpose()?;
        Ok(Seen { now, row: columns.map(|it| (it.version(), it.into_row())) })
    }

    async fn swap_record<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
        id: RecordId,
        seen: Option<Version>,
        row: &'c Row,
    ) -> Result<bool, sqlx::Error> {
        let columns = Columns::of(row, seen);
        let swap = match seen {
            None => {
                let places = ["?"; COLUMNS.len()].join(", ");
                let names = COLUMNS.join(", ");
                format!(
                    "INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT (id) DO NOTHING"
                )
            }
            Some(_) => {
                let sets = COLUMNS.map(|name| format!("{name} = ?")).join(", ");
                format!(
                    "UPDATE {table} SET {sets}
                     WHERE id = ? AND version = ? AND token = ? AND until = ?"
                )
            }
        };
        let mut swap = bind(sqlx::query(AssertSqlSafe(swap)), id, columns);
        if let Some(seen) = seen {
            swap = swap.bind(id.as_bytes().to_vec());
            swap = swap.bind(seen.number).bind(seen.token).bind(seen.until);
        }
        Ok(swap.execute(connection).await?.rows_affected() > 0)
    }

    async fn complete_record<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
        id: RecordId,
        token: FencingToken,
        outcome: &'c Outcome,
        ttl: Duration,
    ) -> Result<bool, sqlx::Error> {
        // Only what reads as a record is made another one: see `Columns::into_row`.
        let complete = format!(
            "UPDATE {table} SET version = version + 1, state = ?, until = {NOW} + ?, barred = NULL,
             back_token = NULL, back_first = NULL, back_since = NULL, back_until = NULL,
             payload_bytes = ?, payload = ?
             WHERE id = ? AND layout = {LAYOUT} AND state = '{IN_FLIGHT}' AND token = ?
             AND until > {NOW} AND length(fingerprint) = 32 AND payload IS NULL
             AND payload_bytes IS NULL AND (barred IS NULL OR barred > 0)
             AND (back_token IS NULL) = (back_since IS NULL)
             AND (back_token IS NULL) = (back_until IS NULL)
             AND (back_token IS NULL OR back_token > 0)
             AND (back_first IS NULL OR (back_first > 0 AND back_token IS NOT NULL))"
        );
        let (state, payload) = payload_of(outcome);
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let complete = sqlx::query(AssertSqlSafe(complete))
            .bind(state)
            .bind(ttl)
            .bind(length(payload))
            .bind(payload.map(<[u8]>::to_vec))
            .bind(id.as_bytes().to_vec())
            .bind(i64::from(token));
        Ok(complete.execute(connection).await?.rows_affected() > 0)
    }

    async fn sweep_records<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
        rows_max: u32,
    ) -> Result<u64, sqlx::Error> {
        let sweep = format!(
            "DELETE FROM {table} WHERE rowid IN
             (SELECT rowid FROM {table} WHERE until <= {NOW} ORDER BY until LIMIT ?)"
        );
        let sweep = sqlx::query(AssertSqlSafe(sweep)).bind(rows_max);
        Ok(sweep.execute(connection).await?.rows_affected())
    }

    async fn begin(pool: &SqlitePool) -> Result<Transaction<'static, Self>, sqlx::Error> {
        // One that began with a read would fail where others write, instead of waiting for them.
        pool.begin_with("BEGIN IMMEDIATE").await
    }

    fn trouble(error: &sqlx::Error) -> Trouble {
        Trouble::of_sqlite(error)
    }

    fn fault_of(pool: &SqlitePool, table: &TableName, error: sqlx::Error) -> (Fault, IsBusy) {
        let options = pool.connect_options();
        let trouble = Trouble::of_sqlite(&error);
        let file = options.get_filename();
        let busy = || DatabaseError::Busy { path: file.to_owned(), waited: ASKED_FOR };
        let error = trouble.meaning(file, table, &error).unwrap_or_else(busy);
        (error.into(), IsBusy(trouble == Trouble::Busy))
    }
}

fn columns(row: &SqliteRow) -> Result<Columns, sqlx::Error> {
    Ok(Columns {
        layout: row.try_get("layout")?,
        version: row.try_get("version")?,
        state: row.try_get("state")?,
        token: row.try_get("token")?,
        barred: row.try_get("barred")?,
        since: row.try_get("since")?,
        until: row.try_get("until")?,
        back_token: row.try_get("back_token")?,
        back_first: row.try_get("back_first")?,
        back_since: row.try_get("back_since")?,
        back_until: row.try_get("back_until")?,
        fingerprint: row.try_get("fingerprint")?,
        payload_bytes: row.try_get("payload_bytes")?,
        payload: row.try_get("payload")?,
    })
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

/// In the order of [`COLUMNS`].
fn bind(query: Query<'_>, id: RecordId, columns: Columns) -> Query<'_> {
    query
        .bind(id.as_bytes().to_vec())
        .bind(columns.layout)
        .bind(columns.version)
        .bind(columns.state)
        .bind(columns.token)
        .bind(columns.barred)
        .bind(columns.since)
        .bind(columns.until)
        .bind(columns.back_token)
        .bind(columns.back_first)
        .bind(columns.back_since)
        .bind(columns.back_until)
        .bind(columns.fingerprint)
        .bind(columns.payload_bytes)
        .bind(columns.payload)
}
