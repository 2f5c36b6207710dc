//! Statements over connections that are handed in.
//!
//! SQLite ends a transaction by itself where a statement says `OR ROLLBACK`, and at some errors, as of
//! a disk that is full. sqlx does not hear of it: what comes next would commit by itself, statement for
//! statement.

use std::convert::identity;

use crate::sql::runs::runs;
use crate::sql::trouble::Trouble;

runs!(
    sqlx::Sqlite,
    Trouble::of_sqlite,
    identity,
    async fn is_open(connection: &mut Self::Connection) -> Result<bool, sqlx::Error> {
        // A savepoint would begin a transaction where none is.
        let Err(error) = sqlx::raw_sql("BEGIN").execute(&mut *connection).await else {
            sqlx::raw_sql("ROLLBACK").execute(connection).await?;
            return Ok(false);
        };
        let said = error.as_database_error();
        let is_within = said.is_some_and(|said| said.message().contains("within a transaction"));
        if is_within { Ok(true) } else { Err(error) }
    }
);
