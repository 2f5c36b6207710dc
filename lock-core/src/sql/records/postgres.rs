//! PostgreSQL's dialect of a record.

use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres};

use super::columns::{COLUMNS, Columns};
use super::dialect::{CONNECTIONS_MAX, Passes, RecordDialect};
use super::verbs;
use crate::backend::{ConnectError, Fault, StoreUrl};
use crate::records::RecordId;
use crate::sql::postgres::PostgresConfig;
use crate::sql::remote::{IDLE_MAX, Unserved};
use crate::sql::runs::{Runs as _, there};
use crate::sql::{DatabaseError, TableName};

impl RecordDialect for Postgres {
    /// When it is looked at, as a statement may have waited for the row since it began.
    const NOW: &'static str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

    fn record_table(table: &TableName) -> Vec<String> {
        let records = format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             id bytea NOT NULL PRIMARY KEY,\n  \
             layout bigint NOT NULL,\n  \
             version bigint NOT NULL,\n  \
             state text NOT NULL,\n  \
             token bigint NOT NULL,\n  \
             barred bigint,\n  \
             since bigint NOT NULL,\n  \
             until bigint NOT NULL,\n  \
             back_token bigint,\n  \
             back_first bigint,\n  \
             back_since bigint,\n  \
             back_until bigint,\n  \
             fingerprint bytea NOT NULL,\n  \
             payload_bytes bigint,\n  \
             payload bytea\n\
             )"
        );
        // An index is in the schema of its table, and its name says none.
        let ends = format!("CREATE INDEX IF NOT EXISTS {}_until ON {table} (until)", table.alone());
        vec![records, ends]
    }

    fn sweep_records(table: &TableName) -> String {
        // One that a transaction has locked is being completed, or swept by another.
        let now = Self::NOW;
        format!(
            "DELETE FROM {table} WHERE id = ANY(ARRAY(\
             SELECT id FROM {table} WHERE until <= {now} ORDER BY until LIMIT ? \
             FOR UPDATE SKIP LOCKED))"
        )
    }

    async fn look_afresh(
        connection: &mut PgConnection,
        table: &TableName,
        id: RecordId,
    ) -> Result<(), sqlx::Error> {
        let says = "SELECT current_setting('transaction_isolation') AS level".to_owned();
        let rows = Self::rows(&mut *connection, says, Vec::new()).await?;
        let level = rows.first().map(|row| Self::text(row, "level")).transpose()?.flatten();
        if there(level)? == "read committed" {
            return Ok(());
        }
        // A snapshot does not show what was written since. To lock a row that is another by now is
        // a serialisation failure, and so is to make one that is there.
        let lock = format!("SELECT version FROM {table} WHERE id = ? FOR UPDATE");
        let own_id = || vec![id.as_bytes().to_vec().into()];
        if !Self::rows(&mut *connection, lock, own_id()).await?.is_empty() {
            return Ok(());
        }
        let made = verbs::values(id, Columns::default());
        let insert = Self::insert_record(table, &COLUMNS);
        if Self::run(&mut *connection, insert, made).await? > 0 {
            let delete = format!("DELETE FROM {table} WHERE id = ?");
            Self::run(connection, delete, own_id()).await?;
        }
        Ok(())
    }

    fn own_pool(pool: &PgPool) -> Result<PgPool, Fault> {
        Ok(pool_with(&PostgresConfig::of_pool(pool), CONNECTIONS_MAX))
    }

    fn fault_of(pool: &PgPool, table: &TableName, error: sqlx::Error) -> (Fault, Passes) {
        if error.as_database_error().is_some_and(|it| it.message().contains("startup parameter")) {
            let error = DatabaseError::Option {
                option: "SqlRecords",
                why: "a pooler stands between, and takes no settings from us: connect to the \
                      server itself, or give your own pool with `SqlRecords::with_pool`",
            };
            return (error.into(), Passes::Nowhere);
        }
        let config = PostgresConfig::of_pool(pool).table(table.clone());
        let unserved = Unserved::of_postgres(error, &config);
        let passes = unserved.passes();
        (unserved.error().into(), passes)
    }
}

/// A pool for the database that a URL names.
pub(super) fn pool_of(url: &StoreUrl) -> Result<PgPool, ConnectError> {
    let config = PostgresConfig::of(url)?;
    config.params.durability.keeps_records()?;
    Ok(pool_with(&config, config.params.connections))
}

/// A few connections, on which the server ends what takes too long: what is given up here ends
/// there too.
fn pool_with(config: &PostgresConfig, most: u32) -> PgPool {
    let options = PgPoolOptions::new().max_connections(most).idle_timeout(IDLE_MAX);
    options.connect_lazy_with(config.bounded_options())
}
