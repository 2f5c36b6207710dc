//! Statements over connections that are handed in.
//!
//! A deadlock ends the whole transaction here, and a statement that defines a table commits it.
//! sqlx hears of neither: what comes next would commit by itself, statement for statement.

use std::convert::identity;

use crate::sql::runs::runs;
use crate::sql::trouble::Trouble;

/// `SAVEPOINT … does not exist`.
const NO_SAVEPOINT: u16 = 1305;

runs!(
    sqlx::MySql,
    Trouble::of_mysql,
    identity,
    async fn is_open(connection: &mut Self::Connection) -> Result<bool, sqlx::Error> {
        // Outside of a transaction a savepoint is gone with the statement that sets it.
        let tried = "SAVEPOINT lock_core_is_open; RELEASE SAVEPOINT lock_core_is_open";
        let Err(error) = sqlx::raw_sql(tried).execute(connection).await else { return Ok(true) };
        let said = error.as_database_error();
        let said = said.and_then(|said| said.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
        if said.is_some_and(|said| said.number() == NO_SAVEPOINT) { Ok(false) } else { Err(error) }
    },
    fn other_engine(table: &str) -> Option<String> {
        Some(format!(
            "SELECT CONVERT(engine USING utf8mb4) AS engine FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name = '{table}' AND engine <> 'InnoDB'"
        ))
    }
);
