//! Statements of the fixture itself at its server.

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow, MySqlSslMode};

use super::server::{MariaDbServer, OWNER, PASSWORD};

impl MariaDbServer {
    /// The login of the fixture: the owner, who may do everything.
    #[must_use]
    pub fn options(&self) -> MySqlConnectOptions {
        MySqlConnectOptions::new()
            .host("127.0.0.1")
            .port(self.port())
            .username(OWNER)
            .password(PASSWORD)
            .database("shop")
            .ssl_mode(MySqlSslMode::Disabled)
            .disable_statement_logging()
    }

    /// Has statements run as the owner, and gives their rows.
    ///
    /// # Errors
    ///
    /// The error that the server answers with.
    pub fn try_sql(&self, text: impl Into<String>) -> Result<Vec<MySqlRow>, sqlx::Error> {
        self.admin().ask(self.options(), text.into())
    }

    /// The same where they are good.
    ///
    /// # Panics
    ///
    /// With what the server says where they are not.
    pub fn sql(&self, text: impl Into<String>) -> Vec<MySqlRow> {
        let text = text.into();
        self.try_sql(&*text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}
