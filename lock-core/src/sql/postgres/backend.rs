//! The store for clients.

use super::config::PostgresConfig;
use super::dialect::PostgresDialect;
use crate::backend::{ConnectError, StoreUrl};
use crate::sql::backend::*;
use crate::sql::schemes::POSTGRES;

/// The shortest lease that is renewed in time over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

backend! {
    /// Locks in a PostgreSQL database. Cheap to clone; the clones share a few connections.
    Postgres,
    /// A claim on a key in a PostgreSQL database.
    PostgresClaim,
    PostgresDialect, LEASE_MIN
}

impl Postgres {
    /// Connects to what a URL names, see [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped, beyond what `?create=true` made.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        PostgresConfig::of(&StoreUrl::parse(url, &[POSTGRES])?)?.connect().await
    }
}
