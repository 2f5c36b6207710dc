//! The dialect of MySQL and MariaDB of a record.

use sqlx::mysql::MySqlPoolOptions;
use sqlx::{MySql, MySqlPool};

use super::dialect::{CONNECTIONS_MAX, Passes, RecordDialect};
use crate::backend::{ConnectError, Fault, StoreUrl};
use crate::sql::TableName;
use crate::sql::mysql::{MysqlConfig, settle};
use crate::sql::remote::{IDLE_MAX, Unserved};

impl RecordDialect for MySql {
    /// When the statement began.
    const NOW: &'static str =
        "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)";

    /// A plain read is one of the snapshot.
    const PRESENT: &'static str = "FOR UPDATE";

    fn record_table(table: &TableName) -> Vec<String> {
        vec![format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             id varbinary(64) NOT NULL PRIMARY KEY,\n  \
             layout bigint NOT NULL,\n  \
             version bigint NOT NULL,\n  \
             state varchar(32) NOT NULL,\n  \
             token bigint NOT NULL,\n  \
             barred bigint,\n  \
             since bigint NOT NULL,\n  \
             until bigint NOT NULL,\n  \
             back_token bigint,\n  \
             back_first bigint,\n  \
             back_since bigint,\n  \
             back_until bigint,\n  \
             fingerprint varbinary(64) NOT NULL,\n  \
             payload_bytes bigint,\n  \
             payload longblob,\n  \
             KEY {table}_until (until)\n\
             ) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
        )]
    }

    fn insert_record(table: &TableName, columns: &[&str]) -> String {
        // The count of `ON DUPLICATE KEY UPDATE` would not say whether the row is new.
        let (names, places) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
        format!("INSERT IGNORE INTO {table} ({names}) VALUES ({places})")
    }

    fn sweep_records(table: &TableName) -> String {
        let now = Self::NOW;
        format!("DELETE FROM {table} WHERE until <= {now} ORDER BY until LIMIT ?")
    }

    fn own_pool(pool: &MySqlPool) -> Result<MySqlPool, Fault> {
        Ok(pool_with(&MysqlConfig::of_pool(pool), CONNECTIONS_MAX))
    }

    fn fault_of(pool: &MySqlPool, table: &TableName, error: sqlx::Error) -> (Fault, Passes) {
        let config = MysqlConfig::of_pool(pool).table(table.clone());
        let unserved = Unserved::of_mysql(error, &config);
        let passes = unserved.passes();
        (unserved.error().into(), passes)
    }
}

/// A pool for the database that a URL names.
pub(super) fn pool_of(url: &StoreUrl) -> Result<MySqlPool, ConnectError> {
    let config = MysqlConfig::of(url)?;
    config.params.durability.keeps_records()?;
    Ok(pool_with(&config, config.params.connections))
}

/// A few connections, on which the server ends what takes too long: what is given up here ends
/// there too.
fn pool_with(config: &MysqlConfig, most: u32) -> MySqlPool {
    let options = MySqlPoolOptions::new().max_connections(most).idle_timeout(IDLE_MAX);
    let options = options.after_connect(|connection, _| Box::pin(settle(connection)));
    options.connect_lazy_with(config.own_options())
}
