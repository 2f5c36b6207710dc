//! SQLite's spelling of the statements.
//!
//! `now` of a statement is fixed when it begins, and that is when it has the file's write lock: the
//! connection waits for nothing (`busy_timeout=0`), it is refused and asks again.

use crate::backend::register::tokens::{AHEAD_MAX, AHEAD_TOKENS, EPOCH_US, PER_US};
use crate::sql::read;
use crate::sql::schema::{Schema, TableName};
use crate::sql::statements::Statements;

/// The time in milliseconds since 1970.
const NOW: &str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

/// The columns that there must be, with their types.
pub(super) const COLUMNS: [(&str, &str); 9] = [
    ("name", "TEXT"),
    ("version", "INTEGER"),
    ("fence", "INTEGER"),
    ("fences", "INTEGER"),
    ("holder", "TEXT"),
    ("about", "TEXT"),
    ("until", "INTEGER"),
    ("holders", "TEXT"),
    ("line", "TEXT"),
];

/// The statement that asks which columns there are.
pub(super) fn columns(schema: &Schema) -> String {
    format!("SELECT name, type, pk FROM pragma_table_info('{}')", schema.leases())
}

/// The table and the view, with the statements that make them.
pub(super) fn schema(table: TableName) -> Schema {
    Schema::new(table, |leases, status| {
        vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {leases} (\n  \
                   name TEXT NOT NULL PRIMARY KEY, -- the key\n  \
                   version INTEGER NOT NULL, -- another one after each change\n  \
                   fence INTEGER NOT NULL, -- the last token\n  \
                   fences INTEGER NOT NULL DEFAULT 1, -- the size of the block that ends with it\n  \
                   holder TEXT, -- the first claim that holds the key\n  \
                   about TEXT NOT NULL DEFAULT '', -- what it says of itself\n  \
                   until INTEGER NOT NULL, -- the end of the lease, in ms since 1970\n  \
                   holders TEXT NOT NULL DEFAULT '', -- what else there is to say of holders\n  \
                   line TEXT NOT NULL DEFAULT '' -- who waits, in order\n\
                 ) STRICT, WITHOUT ROWID"
            ),
            format!(
                "CREATE VIEW IF NOT EXISTS {status} AS SELECT\n  \
                   name,\n  \
                   CASE WHEN holder IS NULL THEN 'free'\n    \
                        WHEN until > {NOW} THEN 'held' ELSE 'expired' END AS status,\n  \
                   fence AS token,\n  \
                   length(line) - length(replace(line, char(10), '')) AS waiting,\n  \
                   about,\n  \
                   strftime('%Y-%m-%dT%H:%M:%fZ', until / 1000.0, 'unixepoch') AS until,\n  \
                   version\n\
                 FROM {leases}"
            ),
        ]
    })
}

/// The statements over the table of a schema.
pub(super) fn of(schema: &Schema) -> Statements {
    let table = schema.leases();
    let ticks = format!("(({NOW} * 1000 - {EPOCH_US}) * {PER_US})");
    // As `backend/register/tokens` reserves them: `last` is that of the row, `?5` the most.
    let fences = |last: &str, clock: &str| {
        let ahead = format!("{last} > {clock} + {AHEAD_MAX}");
        let few = format!("min(?5, {AHEAD_TOKENS})");
        format!(
            "fences = CASE WHEN {ahead} THEN {few} ELSE max(1, min(?5, {clock} - {last})) END, \
                 fence = CASE WHEN {ahead} THEN {last} + {few} ELSE max({last} + 1, {clock}) END"
        )
    };
    // A new row has the time in microseconds as its version, and the clock as its first token.
    let take = format!(
        "INSERT INTO {table} AS l (name, version, fence, fences, holder, about, until) \
             VALUES (?1, {NOW} * 1000, {ticks}, 1, ?2, ?3, {NOW} + ?4) \
             ON CONFLICT (name) DO UPDATE SET version = l.version + 1, {}, \
             holder = excluded.holder, about = excluded.about, until = excluded.until \
             WHERE l.until <= excluded.version / 1000 AND l.holders = '' AND l.line = '' \
             RETURNING version, fence, fences, line <> ''",
        fences("l.fence", "excluded.fence"),
    );
    let renew = format!(
        "UPDATE {table} SET version = version + 1, {}, about = ?3, until = {NOW} + ?4 \
             WHERE name = ?1 AND holder = ?2 AND until > {NOW} AND holders = '' \
             RETURNING version, fence, fences, line <> ''",
        fences("fence", &ticks),
    );
    let columns = read::COLUMNS;
    Statements {
        take: take.into(),
        renew: renew.into(),
        give_back: format!(
            "UPDATE {table} SET version = version + 1, holder = NULL, about = '', \
                 until = {NOW} \
                 WHERE name = ?1 AND holder = ?2 AND until > {NOW} AND holders = '' AND line = ''"
        )
        .into(),
        read: format!(
            "SELECT {columns}, n.now FROM (SELECT {NOW} AS now) AS n \
                 LEFT JOIN {table} ON name = ?1"
        )
        .into(),
        read_all: format!(
            "SELECT {columns}, {NOW}, name FROM {table} \
             WHERE name IN (SELECT value FROM json_each(?1))"
        )
        .into(),
        busy: format!(
            "SELECT name FROM {table} WHERE name >= ?1 AND name < ?2 \
                 AND (until > {NOW} OR holders <> '' OR line <> '') ORDER BY name LIMIT ?3"
        )
        .into(),
        insert: format!(
            "INSERT INTO {table} (name, {columns}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
                 ON CONFLICT (name) DO NOTHING"
        )
        .into(),
        update: format!(
            "UPDATE {table} SET version = ?2, fence = ?3, fences = ?4, holder = ?5, \
                 about = ?6, until = ?7, holders = ?8, line = ?9 WHERE name = ?1 AND version = ?10"
        )
        .into(),
        behind: format!(
            "SELECT name FROM {table} WHERE name >= ?1 ORDER BY name LIMIT 1 OFFSET ?2"
        )
        .into(),
        sweep: format!(
            "DELETE FROM {table} WHERE name >= ?2 AND name < ?3 \
                 AND until < {NOW} - ?1 AND fence < {ticks}"
        )
        .into(),
    }
}
