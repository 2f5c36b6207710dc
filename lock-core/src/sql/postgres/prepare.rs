//! Making the table where that is asked for, and checking the one that is there.

use std::sync::Arc;
use std::time::Instant;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::arg::Arg;
use super::link::Link;
use super::statements::{COLUMNS, FOUND, RIGHTS, qualified};
use super::trouble::table_right_missing;
use crate::backend::Fault;
use crate::sql::fault::DatabaseError;
use crate::sql::remote::Twice;
use crate::sql::schema::Column;

/// Two that make the tables at once would each see them missing.
const ONE_AT_A_TIME: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('lock-core: making the tables', 0))";

/// The statement that asks whether the table `$1`, the view `$2` and the schema `$3` are there.
const THERE: &str = "SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL, \
    to_regnamespace($3) IS NOT NULL";

/// Sees to it that the locks can be served.
pub(super) async fn prepare(link: &Link, by: Instant) -> Result<(), Fault> {
    if link.config().params.creates {
        make(link, by).await?;
    }
    let table = link.config().qualified_table();
    let found = ask(link, by, FOUND, &[Arg::Text(table.clone())]).await?;
    let mut columns = Vec::new();
    for row in &found {
        let (name, kind, is_key): (String, String, bool) =
            (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        if is_key && !get::<bool>(row, 3)? {
            let what =
                format!("its column `{name}` has a collation that takes some texts as equal");
            return Err(DatabaseError::TableShape { table, what }.into());
        }
        columns.push(Column { name, kind, is_key });
    }
    link.schema().check(&columns, &COLUMNS)?;
    let mut missing = Vec::new();
    for row in ask(link, by, RIGHTS, &[Arg::Text(table)]).await? {
        if !get::<bool>(&row, 1)? {
            missing.push(get::<String>(&row, 0)?);
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(table_right_missing(link.config(), &missing.join(", ")).into()),
    }
}

/// Makes what is missing, all of it or nothing. A login that may make nothing is served where all
/// is there.
async fn make(link: &Link, by: Instant) -> Result<(), Fault> {
    let (config, schema) = (link.config(), link.schema());
    let within = config.params.within.as_ref();
    let view = qualified(within, schema.status());
    let folder = within.map_or_else(|| "public".to_owned(), ToString::to_string);
    let args = [Arg::Text(config.qualified_table()), Arg::Text(view), Arg::Text(folder)];
    let there = ask(link, by, THERE, &args).await?;
    let Some(there) = there.first() else { return Ok(()) };
    let (table, view, folder): (bool, bool, bool) =
        (get(there, 0)?, get(there, 1)?, get(there, 2)?);
    if table && view {
        return Ok(());
    }
    let mut script = vec![ONE_AT_A_TIME];
    let statements = schema.statements().iter().map(String::as_str);
    // To make a schema that is there needs the right to make one all the same.
    script.extend(statements.skip(usize::from(within.is_some() && folder)));
    link.run_all(by, &script.join(";\n")).await
}

async fn ask(link: &Link, by: Instant, text: &str, args: &[Arg]) -> Result<Vec<PgRow>, Fault> {
    let statement: Arc<str> = text.into();
    link.run(by, &statement, args, Twice::Same).await
}

fn get<'r, T>(row: &'r PgRow, place: usize) -> Result<T, Fault>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(place).map_err(|error| DatabaseError::Other { what: error.to_string() }.into())
}
