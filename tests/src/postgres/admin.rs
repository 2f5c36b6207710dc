//! Statements of the fixture itself at its server.

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgRow, PgSslMode};

use super::server::PostgresServer;

impl PostgresServer {
    /// The login of the fixture: the superuser.
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
    /// The error that the server answers with.
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
