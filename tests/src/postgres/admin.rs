//! What the fixture itself asks of its server, from any thread.

use std::sync::Arc;

use futures_executor::block_on;
use lock_core::backend::io::Home;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions};
use tokio::sync::Mutex;

use super::server::PostgresServer;

/// A connection on a runtime of its own, made when it is needed.
#[derive(Debug)]
pub(super) struct Admin {
    home: Arc<Home>,
    connection: Arc<Mutex<Option<PgConnection>>>,
}

impl Admin {
    pub(super) fn new() -> Self {
        Self { home: Home::start("postgres-admin").expect("a thread"), connection: Arc::default() }
    }

    /// The server is another one from now on.
    pub(super) fn forget(&self) {
        let connection = self.connection.clone();
        block_on(self.home.spawn(async move { drop(connection.lock().await.take()) }))
            .expect("no panic");
    }

    fn ask(&self, options: PgConnectOptions, text: String) -> Result<Vec<PgRow>, sqlx::Error> {
        let connection = self.connection.clone();
        let task = self.home.spawn(async move {
            let mut place = connection.lock().await;
            let mut open = match place.take() {
                Some(open) => open,
                None => options.connect().await?,
            };
            let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut open).await;
            if !matches!(rows, Err(sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) {
                *place = Some(open);
            }
            rows
        });
        block_on(task).expect("no panic")
    }
}

impl PostgresServer {
    /// As whom the fixture connects: the superuser.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port())
            .username("postgres")
            .database("postgres")
            .ssl_mode(PgSslMode::Disable)
            .application_name("fixture")
            .disable_statement_logging()
    }

    /// Has statements run as the superuser, and gives their rows.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn try_sql(&self, text: impl Into<String>) -> Result<Vec<PgRow>, sqlx::Error> {
        self.admin().ask(self.options(), text.into())
    }

    /// The same where they are good.
    ///
    /// # Panics
    ///
    /// With what the server says where they are not.
    pub fn sql(&self, text: impl Into<String>) -> Vec<PgRow> {
        let text = text.into();
        self.try_sql(&*text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}
