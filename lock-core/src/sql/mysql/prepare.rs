//! Making the table where that is asked for, and checking the one that is there.

use std::time::Instant;

use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::link::{Link, Tried};
use super::statements::{COLUMNS, FOUND, probes};
use super::text::{Arg, Text};
use super::trouble::right_missing;
use crate::backend::Fault;
use crate::sql::fault::DatabaseError;
use crate::sql::remote::Durability;
use crate::sql::schema::Column;

/// Sees to it that the locks can be served.
pub(super) async fn prepare(link: &Link, by: Instant) -> Result<(), Fault> {
    let config = link.config();
    if config.params.durability == Durability::Async {
        let error = DatabaseError::Option {
            option: "durability=async",
            why: "MySQL and MariaDB have it for the whole server alone; have an administrator say \
                  `SET GLOBAL innodb_flush_log_at_trx_commit = 2`, and leave it out",
        };
        return Err(error.into());
    }
    if config.params.creates {
        make(link, by).await?;
    }
    let table = config.params.table.to_string();
    let mut missing = Vec::new();
    for (right, probe) in probes(&table) {
        match link.tries(by, &probe).await {
            Ok(Tried::Done) => {}
            Ok(Tried::Missing) => return Err(DatabaseError::TableMissing { table }.into()),
            Ok(Tried::Denied) => missing.push(right),
            // The shape is told by what is there, below.
            Err(fault) if is_of_shape(&fault) => {}
            Err(fault) => return Err(fault),
        }
    }
    if !missing.is_empty() {
        let who = link.once(by, "SELECT CURRENT_USER()").await?;
        let who = who.first().map(|row| get::<String>(row, 0)).transpose()?;
        let denied = format!("{} command denied", missing.join(", "));
        return Err(right_missing(&denied, config, who.as_deref()).into());
    }
    let mut columns = Vec::new();
    for row in link.rows(by, &Text::new(FOUND), &[Arg::Text(table.clone())]).await? {
        match get::<Option<String>>(&row, 3)? {
            Some(engine) if engine.eq_ignore_ascii_case("InnoDB") => {}
            Some(engine) => return Err(DatabaseError::TableEngine { table, engine }.into()),
            None => {
                let what = "it is a view, or cannot be opened".to_owned();
                return Err(DatabaseError::TableShape { table, what }.into());
            }
        }
        let (name, kind, is_key): (String, String, i64) =
            (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        columns.push(Column { name, kind, is_key: is_key != 0 });
    }
    Ok(link.schema().check(&columns, &COLUMNS)?)
}

/// Makes what is missing. A login that may make nothing is served where all is there.
async fn make(link: &Link, by: Instant) -> Result<(), Fault> {
    let (table, view) = (link.config().params.table.to_string(), link.schema().status());
    for (name, statement) in [&*table, view].into_iter().zip(link.schema().statements()) {
        let look = format!("SELECT 1 FROM {name} LIMIT 0");
        // One that is denied may be there, and whoever may not look at it needs it not.
        if link.tries(by, &look).await? == Tried::Missing {
            link.once(by, statement).await?;
        }
    }
    Ok(())
}

fn is_of_shape(fault: &Fault) -> bool {
    let error = fault.cause().and_then(|cause| cause.downcast_ref::<DatabaseError>());
    matches!(error, Some(DatabaseError::TableShape { .. }))
}

fn get<'r, T>(row: &'r MySqlRow, place: usize) -> Result<T, Fault>
where
    T: sqlx::Decode<'r, sqlx::MySql> + sqlx::Type<sqlx::MySql>,
{
    row.try_get(place).map_err(|error| DatabaseError::Other { what: error.to_string() }.into())
}
