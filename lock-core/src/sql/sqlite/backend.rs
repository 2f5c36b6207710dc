//! The store for clients.

use super::config::SqliteConfig;
use super::dialect::SqliteDialect;
use crate::backend::{ConnectError, StoreUrl};
use crate::sql::backend::*;
use crate::sql::schemes::SQLITE;

/// The shortest lease that is renewed in time, also while others have the file.
const LEASE_MIN: Duration = Duration::from_millis(100);

backend! {
    /// Locks in a SQLite database. Cheap to clone; the clones share one connection.
    Sqlite,
    /// A claim on a key in a SQLite database.
    SqliteClaim,
    SqliteDialect, LEASE_MIN
}

impl Sqlite {
    /// Opens what a URL names, see [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped, beyond what `?create=true` made.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        SqliteConfig::of(&StoreUrl::parse(url, &[SQLITE])?)?.connect().await
    }
}
