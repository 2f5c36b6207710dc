//! The statements as MySQL and MariaDB spell them: those that both take.
//!
//! **Time** is `UTC_TIMESTAMP(6)`, when the statement began. One that waited for its row grants a
//! lease that is shorter by the wait, and never longer; the server ends the wait after a second.
//!
//! One that takes a key says until when it may, as one that is late has been given up: that goes by
//! `SYSDATE(6)`, which is the time behind a wait for the row as well. (Not so where the whole
//! server has `sysdate-is-now`: there a wait of up to a second is not counted.)
//!
//! **Order**: both assign from left to right, and a later expression sees what an earlier one has
//! assigned. So each column is assigned behind all that read it, which holds as well where all are
//! assigned at once (`SIMULTANEOUS_ASSIGNMENT`).
//!
//! **Rows stay** when a key is given back: inserting and deleting one row is what deadlocks here.

use super::short::{TOKEN_END, packed, version_of};
use super::text::Text;
use crate::backend::register::tokens::{AHEAD_MAX, AHEAD_TOKENS, EPOCH_US, PER_US};
use crate::sql::read;
use crate::sql::schema::{Schema, TableName};

/// The time in microseconds since 1970.
pub(super) const NOW_US: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The time in milliseconds at which it is asked for, by the clock of a session that is in UTC.
const RIGHT_NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) DIV 1000)";

/// Whether what `LAST_INSERT_ID(…)` was given before, in the same statement, is an answer. In this
/// spelling it is asked for anew wherever it stands.
const ANSWERED: &str = "LAST_INSERT_ID(LAST_INSERT_ID()) > 0";

/// The most keys of one statement that reads.
pub(super) const READ_KEYS_MAX: usize = 64;

/// The columns that there must be, with their types.
pub(super) const COLUMNS: [(&str, &str); 9] = [
    ("name", "varbinary"),
    ("version", "bigint"),
    ("fence", "bigint"),
    ("fences", "bigint"),
    ("holder", "varchar"),
    ("about", "text"),
    ("until", "bigint"),
    ("holders", "mediumtext"),
    ("line", "mediumtext"),
];

/// The columns of the table `$1`, with the table's engine: name, type, whether it is of the primary
/// key, engine.
pub(super) const FOUND: &str = "\
    SELECT CONVERT(c.column_name USING utf8mb4), CONVERT(c.data_type USING utf8mb4), \
    CAST(c.column_key = 'PRI' AS SIGNED), CONVERT(t.engine USING utf8mb4) \
    FROM information_schema.columns AS c \
    JOIN information_schema.tables AS t \
    ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
    WHERE c.table_schema = DATABASE() AND c.table_name = $1";

/// Statements that need a right each, and do nothing: no key is empty.
pub(super) fn probes(table: &str) -> [(&'static str, String); 4] {
    let columns = read::COLUMNS;
    [
        ("SELECT", format!("SELECT 1 FROM {table} WHERE name = ''")),
        (
            "INSERT",
            format!(
                "INSERT INTO {table} (name, {columns}) \
                 SELECT name, {columns} FROM {table} WHERE name = ''"
            ),
        ),
        ("UPDATE", format!("UPDATE {table} SET version = version WHERE name = ''")),
        ("DELETE", format!("DELETE FROM {table} WHERE name = ''")),
    ]
}

/// The values that a grant writes, in SQL.
///
/// Tokens are as `backend/register/tokens` reserves them, but that the size of a block is a power
/// of two: the power is how many digits a number has beside the first.
#[derive(Debug)]
pub(super) struct Granted {
    /// The time in milliseconds when the statement began.
    pub(super) now: String,
    /// The same as tokens count it.
    ticks: String,
    /// The last token of the block, and how many there are as a power of two.
    pub(super) token: String,
    pub(super) power: String,
    pub(super) version: String,
    /// The microsecond of the token.
    micros: String,
}

impl Granted {
    /// The values of a grant of at most so many tokens, given as a power of two and as a number.
    pub(super) fn new(power_max: &str, most: &str) -> Self {
        let ticks = format!("(({NOW_US} - {EPOCH_US}) * {PER_US})");
        let ahead = format!("fence > {ticks} + {AHEAD_MAX}");
        let size = format!("GREATEST(1, LEAST({most}, {ticks} - fence))");
        let few = format!("LEAST({most}, {AHEAD_TOKENS})");
        let few_power = format!("LEAST({power_max}, {})", AHEAD_TOKENS.ilog2());
        let token = format!("IF({ahead}, fence + {few}, GREATEST(fence + 1, {ticks}))");
        let micros = version_of(&token);
        Self {
            now: format!("({NOW_US} DIV 1000)"),
            power: format!("IF({ahead}, {few_power}, LENGTH(BIN({size})) - 1)"),
            version: format!("GREATEST(version + 1, {micros})"),
            ticks,
            token,
            micros,
        }
    }
}

/// The table and the view, with the statements that make them.
pub(super) fn schema(table: TableName) -> Schema {
    let now = format!("{NOW_US} DIV 1000");
    Schema::new(table, |leases, status| {
        vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {leases} (\n  \
                   name varbinary(512) NOT NULL PRIMARY KEY, -- the key\n  \
                   version bigint NOT NULL, -- another one after each change\n  \
                   fence bigint NOT NULL, -- the last token\n  \
                   fences bigint NOT NULL DEFAULT 1, -- the size of the block that ends with it\n  \
                   holder varchar(64), -- the first claim that holds the key\n  \
                   about text NOT NULL, -- what it says of itself\n  \
                   until bigint NOT NULL, -- the end of the lease, in ms since 1970\n  \
                   holders mediumtext NOT NULL, -- what else there is to say of holders\n  \
                   line mediumtext NOT NULL -- who waits, in order\n\
                 ) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
            ),
            format!(
                "CREATE OR REPLACE SQL SECURITY INVOKER VIEW {status} AS SELECT\n  \
                   CONVERT(name USING utf8mb4) AS name,\n  \
                   CASE WHEN holder IS NULL THEN 'free'\n    \
                        WHEN until > {now} THEN 'held' ELSE 'expired' END AS status,\n  \
                   fence AS token,\n  \
                   LENGTH(line) - LENGTH(REPLACE(line, CHAR(10), '')) AS waiting,\n  \
                   about,\n  \
                   TIMESTAMP('1970-01-01') + INTERVAL until * 1000 MICROSECOND AS until,\n  \
                   version\n\
                 FROM {leases}"
            ),
        ]
    })
}

/// The texts, each made once, so that a connection finds what it has prepared.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    /// Given the key, the claim, what it says of itself, the lease in ms, and the most tokens as a
    /// power of two and as a number; answers in one number, see `short`.
    pub(super) renew: Text,
    /// As [`renew`](Self::renew), and given until when the key may be taken, in ms.
    pub(super) take: Text,
    /// Given the key and the claim.
    pub(super) give_back: Text,
    /// Given the key; answers `read::COLUMNS` and the time in ms, in any case.
    pub(super) read: Text,
    /// Given 1, 2, 4, … keys.
    read_all: Vec<Text>,
    /// Given the first name, the one behind the last, and the most rows; answers names.
    pub(super) busy: Text,
    /// Given the key and `read::COLUMNS`.
    pub(super) insert: Text,
    /// As [`insert`](Self::insert), and the version of the row that it is put in place of.
    pub(super) update: Text,
    /// Given a name and how many rows there are before the one that it names, from there on.
    pub(super) behind: Text,
    /// Given the time in ms, the first name, and the one behind the last; answers keys.
    pub(super) idle: Text,
    /// Given a key and the time in ms.
    pub(super) delete: Text,
}

impl Statements {
    pub(super) fn new(table: &str) -> Self {
        let columns = read::COLUMNS;
        let Granted { now, ticks, token, power, version, micros } = Granted::new("$5", "$6");
        let answer = packed(&token, &power, &format!("version >= {micros}"), "line <> ''");
        let is_free = format!(
            "until <= {now} AND holders = '' AND line = '' AND fence < {TOKEN_END} \
             AND {RIGHT_NOW} < $7"
        );
        // The assignment of the first column decides once whether the key may be had, as time goes
        // on. The answer of the insert is overwritten where there is a row.
        let take = format!(
            "INSERT INTO {table} (name, version, fence, fences, holder, about, until, holders, line) \
             SELECT $1, {new_version}, {ticks}, IF(LAST_INSERT_ID({new}) > 0, 1, 1), $2, $3, \
             {now} + $4, '', '' FROM DUAL WHERE {RIGHT_NOW} < $7 \
             ON DUPLICATE KEY UPDATE \
             fences = IF(LAST_INSERT_ID(IF({is_free}, {answer}, 0)) > 0, 1 << {power}, fences), \
             version = IF({ANSWERED}, {version}, version), \
             holder = IF({ANSWERED}, $2, holder), about = IF({ANSWERED}, $3, about), \
             fence = IF({ANSWERED}, {token}, fence), \
             until = IF({ANSWERED}, {now} + $4, until)",
            new_version = version_of(&ticks),
            new = packed(&ticks, "0", "0", "0"),
        );
        let renew = format!(
            "UPDATE {table} SET \
             fences = IF(LAST_INSERT_ID({answer}) > 0, 1 << {power}, fences), \
             version = {version}, about = $3, fence = {token}, until = {now} + $4 \
             WHERE name = $1 AND holder = $2 AND until > {now} AND holders = '' \
             AND fence < {TOKEN_END}"
        );
        let read_all = |keys: usize| {
            let places: Vec<String> = (1..=keys).map(|place| format!("${place}")).collect();
            Text::new(&format!(
                "SELECT {columns}, {now}, CONVERT(name USING utf8mb4) FROM {table} WHERE name IN ({})",
                places.join(", ")
            ))
        };
        Self {
            take: Text::new(&take),
            renew: Text::new(&renew),
            give_back: Text::new(&format!(
                "UPDATE {table} SET version = version + 1, holder = NULL, about = '', until = {now} \
                 WHERE name = $1 AND holder = $2 AND until > {now} AND holders = '' AND line = ''"
            )),
            read: Text::new(&format!(
                "SELECT {columns}, n.now FROM (SELECT {now} AS now) AS n \
                 LEFT JOIN {table} ON name = $1"
            )),
            read_all: (0..=READ_KEYS_MAX.ilog2()).map(|power| read_all(1 << power)).collect(),
            busy: Text::new(&format!(
                "SELECT CONVERT(name USING utf8mb4) FROM {table} WHERE name >= $1 AND name < $2 \
                 AND (until > {now} OR holders <> '' OR line <> '') ORDER BY name LIMIT $3"
            )),
            insert: Text::new(&format!(
                "INSERT INTO {table} (name, {columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            )),
            update: Text::new(&format!(
                "UPDATE {table} SET version = $2, fence = $3, fences = $4, holder = $5, \
                 about = $6, until = $7, holders = $8, line = $9 WHERE name = $1 AND version = $10"
            )),
            behind: Text::new(&format!(
                "SELECT CONVERT(name USING utf8mb4) FROM {table} WHERE name >= $1 \
                 ORDER BY name LIMIT 1 OFFSET $2"
            )),
            idle: Text::new(&format!(
                "SELECT CONVERT(name USING utf8mb4) FROM {table} WHERE name >= $2 AND name < $3 \
                 AND until < {now} - $1 AND fence < {ticks} ORDER BY name"
            )),
            delete: Text::new(&format!(
                "DELETE FROM {table} WHERE name = $1 AND until < {now} - $2 AND fence < {ticks}"
            )),
        }
    }

    /// The one that reads so many keys, and how many it has to be given.
    pub(super) fn read_all(&self, keys: usize) -> (&Text, usize) {
        let given = keys.clamp(1, READ_KEYS_MAX).next_power_of_two();
        let place = usize::try_from(given.ilog2()).unwrap_or(0).min(self.read_all.len() - 1);
        (&self.read_all[place], given)
    }
}

/// The statement that asks for the time in ms.
pub(super) fn time() -> Text {
    Text::new(&format!("SELECT {NOW_US} DIV 1000"))
}
