//! One connection, as the store needs it.

use sqlx::mysql::{MySqlConnection, MySqlQueryResult, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::config::MysqlConfig;
use super::text::{Arg, Text};
use crate::sql::fault::DatabaseError;
use crate::sql::remote::Unserved;

/// A connection to a server that takes writes.
#[derive(Debug)]
pub(in crate::sql) struct Session {
    connection: MySqlConnection,
}

/// The statement by which a server says its version, and whether it is read-only.
const CHECK: &str = "SELECT VERSION(), CAST(@@GLOBAL.read_only AS SIGNED), \
    CAST(@@GLOBAL.innodb_read_only AS SIGNED)";

/// The settings of a connection, whatever the server's defaults are. Each statement sees what is
/// committed when it begins, and locks no more than its row. A row is waited for for one second,
/// the least that there is, and a table that is being altered as well. `SYSDATE` has no other way
/// to be UTC than the zone of the session.
const SETTINGS: [&str; 2] = [
    "SET SESSION TRANSACTION READ WRITE, ISOLATION LEVEL READ COMMITTED",
    "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
     time_zone = '+00:00', innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
];

/// How long the server works at one statement: what MariaDB has for all of them, MySQL has for
/// those that read.
const BOUND_OF_MARIADB: &str = "SET SESSION max_statement_time = 2";
const BOUND_OF_MYSQL: &str = "SET SESSION max_execution_time = 2000";

/// Sets what a connection of our own needs, at a server of this version.
async fn set(connection: &mut MySqlConnection, version: &str) -> Result<(), sqlx::Error> {
    let bound = match version.contains("MariaDB") {
        true => BOUND_OF_MARIADB,
        false => BOUND_OF_MYSQL,
    };
    for text in SETTINGS.into_iter().chain([bound]) {
        sqlx::raw_sql(text).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The same for the records: the server ends what takes too long.
#[cfg(feature = "idempotency")]
pub(in crate::sql) async fn settle(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let said = sqlx::raw_sql("SELECT VERSION()").fetch_one(&mut *connection).await?;
    let version: String = said.try_get(0)?;
    set(connection, &version).await
}

impl Session {
    /// Connects. Not bounded in time.
    pub(super) async fn open(config: &MysqlConfig) -> Result<Self, Unserved> {
        let unserved = |error| Unserved::of_mysql(error, config);
        let mut connection = config.own_options().connect().await.map_err(unserved)?;
        let said = sqlx::raw_sql(CHECK).fetch_one(&mut connection).await.map_err(unserved)?;
        let is_on = |place| said.try_get::<i64, _>(place).map_err(unserved);
        if is_on(1)? != 0 || is_on(2)? != 0 {
            let (server, why) = (config.server(), "read-only, as a replica is");
            return Err(Unserved::Refused(DatabaseError::ReadOnlyServer { server, why }));
        }
        let version: String = said.try_get(0).map_err(unserved)?;
        set(&mut connection, &version).await.map_err(unserved)?;
        Ok(Self { connection })
    }

    /// Has one statement run; its rows. One that is dropped on the way leaves the connection
    /// unusable.
    pub(super) async fn rows(
        &mut self,
        text: &Text,
        args: &[Arg],
    ) -> Result<Vec<MySqlRow>, sqlx::Error> {
        text.bound(args).fetch_all(&mut self.connection).await
    }

    /// The same; what it wrote.
    pub(super) async fn write(
        &mut self,
        text: &Text,
        args: &[Arg],
    ) -> Result<MySqlQueryResult, sqlx::Error> {
        text.bound(args).execute(&mut self.connection).await
    }

    /// Asks whether there is somebody.
    pub(super) async fn ping(&mut self) -> Result<(), sqlx::Error> {
        self.connection.ping().await
    }

    /// Has a statement without values run, which is not worth to be prepared.
    pub(super) async fn once(&mut self, text: String) -> Result<Vec<MySqlRow>, sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut self.connection).await
    }
}
