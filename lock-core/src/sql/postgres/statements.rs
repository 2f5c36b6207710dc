//! PostgreSQL's spelling of the statements.
//!
//! **Time** is `clock_timestamp()`. `now()` is when the statement began, and it may have waited for
//! the row since: a lease that begins then is partly over when it is granted. It is asked for once
//! in each row that is written, so that the tokens of a block fit together.
//!
//! **Late** statements change nothing: whoever sent one that waited for so long has given it up.
//!
//! **Updates** come first, and an insert only where there is no row: a busy key costs no write.

use std::sync::Arc;

use crate::backend::register::tokens::{AHEAD_MAX, AHEAD_TOKENS, EPOCH_US, PER_US};
use crate::sql::read;
use crate::sql::schema::{Schema, TableName};
use crate::sql::statements::Statements;

/// The time in milliseconds since 1970.
const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

/// Whether a statement did not wait for so long that it was given up.
const IN_TIME: &str = "clock_timestamp() < statement_timestamp() + interval '1500 ms'";

/// The columns that there must be, with their types.
pub(super) const COLUMNS: [(&str, &str); 9] = [
    ("name", "text"),
    ("version", "bigint"),
    ("fence", "bigint"),
    ("fences", "bigint"),
    ("holder", "text"),
    ("about", "text"),
    ("until", "bigint"),
    ("holders", "text"),
    ("line", "text"),
];

/// The columns of the table `$1`: name, type, whether it is of the primary key, and whether it
/// tells texts apart by their bytes.
pub(super) const FOUND: &str = "\
    SELECT a.attname::text, format_type(a.atttypid, NULL), \
    coalesce(a.attnum = ANY(i.indkey), false), \
    coalesce(c.collisdeterministic, true) \
    FROM pg_attribute a \
    LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary \
    LEFT JOIN pg_collation c ON c.oid = a.attcollation \
    WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped";

/// The rights of the login on the table `$1`.
pub(super) const RIGHTS: &str = "\
    SELECT r.name, has_table_privilege(to_regclass($1), r.name) \
    FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r (name)";

/// The statements that write, and tell others by a word on a channel, which come last.
#[derive(Debug, Clone)]
pub(super) struct Telling {
    pub(super) insert: Arc<str>,
    pub(super) update: Arc<str>,
}

impl Telling {
    pub(super) fn of(texts: &Statements) -> Self {
        Self {
            insert: format!("{}, pg_notify($10, $11)", texts.insert).into(),
            update: format!("{}, pg_notify($11, $12)", texts.update).into(),
        }
    }
}

/// The name of a table or a view in its schema.
pub(super) fn qualified(within: Option<&TableName>, name: &str) -> String {
    match within {
        Some(within) => format!("{within}.{name}"),
        None => name.to_owned(),
    }
}

/// The table and the view, with the statements that make them.
pub(super) fn schema(within: Option<&TableName>, table: TableName) -> Schema {
    Schema::new(table, |leases, status| {
        let (leases, status) = (qualified(within, leases), qualified(within, status));
        let folder = within.map(|within| format!("CREATE SCHEMA IF NOT EXISTS {within}"));
        let table = format!(
            "CREATE TABLE IF NOT EXISTS {leases} (\n  \
               name text COLLATE \"C\" NOT NULL PRIMARY KEY, -- the key\n  \
               version bigint NOT NULL, -- another one after each change\n  \
               fence bigint NOT NULL, -- the last token\n  \
               fences bigint NOT NULL DEFAULT 1, -- the size of the block that ends with it\n  \
               holder text, -- the first claim that holds the key\n  \
               about text NOT NULL DEFAULT '', -- what it says of itself\n  \
               until bigint NOT NULL, -- the end of the lease, in ms since 1970\n  \
               holders text NOT NULL DEFAULT '', -- what else there is to say of holders\n  \
               line text NOT NULL DEFAULT '' -- who waits, in order\n\
             ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, \
             autovacuum_vacuum_threshold = 1000)"
        );
        let view = format!(
            "CREATE OR REPLACE VIEW {status} AS SELECT\n  \
               name,\n  \
               CASE WHEN holder IS NULL THEN 'free'\n    \
                    WHEN until > {NOW} THEN 'held' ELSE 'expired' END AS status,\n  \
               fence AS token,\n  \
               length(line) - length(replace(line, chr(10), '')) AS waiting,\n  \
               about,\n  \
               to_timestamp(until / 1000.0) AS until,\n  \
               version\n\
             FROM {leases}"
        );
        folder.into_iter().chain([table, view]).collect()
    })
}

/// The values that a grant sets, and `told` tells. Tokens are as `backend/register/tokens` reserves
/// them; `l.fence` is the last.
fn granted(lease: &str, most: &str) -> String {
    let (ticks, ahead) = (ticks(), format!("l.fence > {} + {AHEAD_MAX}", ticks()));
    // Of the type of the column, as the first use of a parameter says what it is.
    let few = format!("least({most}, {AHEAD_TOKENS}::bigint)");
    format!(
        "(version, fence, fences, until) = (SELECT l.version + 1, \
         CASE WHEN {ahead} THEN l.fence + {few} ELSE greatest(l.fence + 1, {ticks}) END, \
         CASE WHEN {ahead} THEN {few} ELSE greatest(1, least({most}, {ticks} - l.fence)) END, \
         t.now + {lease} FROM (SELECT {NOW} AS now) AS t)"
    )
}

/// The clock as tokens count it.
fn ticks() -> String {
    format!("((t.now * 1000 - {EPOCH_US}) * {PER_US})")
}

/// The values that a grant answers, and the time.
fn told() -> String {
    format!("l.version, l.fence, l.fences, l.line <> '', {NOW}")
}

/// Renews several claims, given a list of each of what [`Statements::renew`] is given; tells the
/// claim behind the time. Rows that somebody else has locked are left out.
pub(super) fn renew_all(table: &str) -> String {
    let (granted, told) = (granted("q.lease", "q.most"), told());
    format!(
        "WITH q AS (SELECT u.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], \
         $5::bigint[]) AS u (name, holder, about, lease, most) \
         JOIN {table} AS l ON l.name = u.name AND l.holder = u.holder \
         ORDER BY l.name FOR UPDATE OF l SKIP LOCKED) \
         UPDATE {table} AS l SET {granted}, about = q.about FROM q \
         WHERE l.name = q.name AND l.holder = q.holder AND l.until > {NOW} AND l.holders = '' \
         AND {IN_TIME} RETURNING {told}, l.holder"
    )
}

/// The statement that asks for the time.
pub(super) fn time() -> String {
    format!("SELECT {NOW}")
}

/// The statements over a table. Those that write answer a row for each that they have written.
pub(super) fn of(table: &str) -> Statements {
    let (ticks, granted, told) = (ticks(), granted("$4", "$5"), told());
    let columns = read::COLUMNS;
    // A new row has the time in microseconds as its version, and the clock as its first token.
    // `$6` is until when the key may be taken, as whoever asks has given it up then.
    let take = format!(
        "WITH updated AS (UPDATE {table} AS l SET {granted}, holder = $2, about = $3 \
         WHERE name = $1 AND until <= {NOW} AND holders = '' AND line = '' AND {IN_TIME} \
         AND {NOW} < $6 RETURNING {told}), \
         inserted AS (INSERT INTO {table} AS l (name, version, fence, holder, about, until) \
         SELECT $1, t.now * 1000, {ticks}, $2, $3, t.now + $4 \
         FROM (SELECT {NOW} AS now) AS t \
         WHERE NOT EXISTS (SELECT FROM {table} WHERE name = $1) AND t.now < $6 \
         ON CONFLICT (name) DO NOTHING RETURNING {told}) \
         SELECT * FROM updated UNION ALL SELECT * FROM inserted"
    );
    let renew = format!(
        "UPDATE {table} AS l SET {granted}, about = $3 \
         WHERE name = $1 AND holder = $2 AND until > {NOW} AND holders = '' AND {IN_TIME} \
         RETURNING {told}"
    );
    let insert = format!(
        "INSERT INTO {table} (name, {columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
             ON CONFLICT (name) DO NOTHING RETURNING version"
    );
    let update = format!(
        "UPDATE {table} SET version = $2, fence = $3, fences = $4, holder = $5, about = $6, \
             until = $7, holders = $8, line = $9 WHERE name = $1 AND version = $10 AND {IN_TIME} \
             RETURNING version"
    );
    Statements {
        take: take.into(),
        renew: renew.into(),
        give_back: format!(
            "UPDATE {table} SET version = version + 1, holder = NULL, about = '', \
                 until = {NOW} WHERE name = $1 AND holder = $2 AND until > {NOW} \
                 AND holders = '' AND line = '' RETURNING version"
        )
        .into(),
        read: format!(
            "SELECT {columns}, t.now FROM (SELECT {NOW} AS now) AS t \
                 LEFT JOIN {table} ON name = $1"
        )
        .into(),
        read_all: format!("SELECT {columns}, {NOW}, name FROM {table} WHERE name = ANY($1)").into(),
        busy: format!(
            "SELECT name FROM {table} WHERE name >= $1 AND name < $2 \
                 AND (until > {NOW} OR holders <> '' OR line <> '') ORDER BY name LIMIT $3"
        )
        .into(),
        insert: insert.into(),
        update: update.into(),
        behind: format!(
            "SELECT name FROM {table} WHERE name >= $1 ORDER BY name LIMIT 1 OFFSET $2"
        )
        .into(),
        sweep: format!(
            "DELETE FROM {table} WHERE name IN (SELECT l.name \
                 FROM {table} AS l, (SELECT {NOW} AS now) AS t \
                 WHERE l.name >= $2 AND l.name < $3 AND l.until < t.now - $1 AND l.fence < {ticks} \
                 ORDER BY l.name FOR UPDATE OF l SKIP LOCKED) RETURNING name"
        )
        .into(),
    }
}
