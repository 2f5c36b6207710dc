//! One connection, as the store needs it.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::arg::{Arg, written};
use super::config::{PostgresConfig, STATEMENT_SHOWN, Way};
use crate::sql::fault::DatabaseError;
use crate::sql::remote::{Durability, Unserved};

/// A connection to a server that takes writes.
#[derive(Debug)]
pub(in crate::sql) struct Session {
    connection: PgConnection,
    way: Way,
}

/// The statement by which a server says whether it takes writes, and how long a statement may take.
const CHECK: &str = "SELECT pg_is_in_recovery(), \
    current_setting('transaction_read_only') = 'on', current_setting('statement_timeout')";

impl Session {
    /// Connects. Not bounded in time.
    pub(super) async fn open(
        config: &PostgresConfig,
        known: Option<Way>,
    ) -> Result<Self, Unserved> {
        let trouble = |error| Unserved::of_postgres(error, config);
        let asked = known.unwrap_or(Way::Direct);
        let (mut connection, mut way) = match config.own_options(asked).connect().await {
            Ok(connection) => (connection, asked),
            Err(error) if asked == Way::Direct && refuses_options(&error) => {
                let options = config.own_options(Way::Pooled);
                (options.connect().await.map_err(trouble)?, Way::Pooled)
            }
            Err(error) => return Err(trouble(error)),
        };
        let said = sqlx::raw_sql(CHECK).fetch_one(&mut connection).await.map_err(trouble)?;
        let is = |place| said.try_get::<bool, _>(place).map_err(trouble);
        let server = config.server();
        let read_only = |why| Unserved::Refused(DatabaseError::ReadOnlyServer { server, why });
        if is(0)? {
            return Err(read_only("a replica"));
        }
        if is(1)? {
            return Err(read_only("read-only"));
        }
        // A pooler may take settings and ignore them.
        if said.try_get::<&str, _>(2).map_err(trouble)? != STATEMENT_SHOWN {
            way = Way::Pooled;
        }
        if way == Way::Pooled && config.params.durability == Durability::Async {
            return Err(Unserved::Refused(DatabaseError::Option {
                option: "durability=async",
                why: "a pooler takes no settings from us; connect to the server itself, or have \
                      an administrator say `ALTER ROLE … SET synchronous_commit = off`",
            }));
        }
        Ok(Self { connection, way })
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Has one statement run. One that is dropped on the way leaves the connection unusable.
    pub(super) async fn run(
        &mut self,
        statement: &std::sync::Arc<str>,
        args: &[Arg],
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        match self.way {
            Way::Direct => {
                // The text is made of constants and of names of tables, which were checked.
                let mut query = sqlx::query(AssertSqlSafe(statement.clone()));
                for arg in args {
                    query = arg.bind(query);
                }
                query.fetch_all(&mut self.connection).await
            }
            Way::Pooled => self.run_all(written(statement, args)).await,
        }
    }

    /// Asks whether there is somebody.
    pub(super) async fn ping(&mut self) -> Result<(), sqlx::Error> {
        self.connection.ping().await
    }

    /// Has some statements run at once, in one transaction.
    pub(super) async fn run_all(&mut self, script: String) -> Result<Vec<PgRow>, sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(script)).fetch_all(&mut self.connection).await
    }
}

/// Whether it is a pooler that takes no settings.
fn refuses_options(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message().contains("startup parameter"))
}
