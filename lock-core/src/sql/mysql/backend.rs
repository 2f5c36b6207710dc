//! The store for clients.

use super::config::MysqlConfig;
use super::dialect::MysqlDialect;
use crate::backend::{ConnectError, StoreUrl};
use crate::sql::backend::*;
use crate::sql::schemes::{MARIADB, MYSQL};

/// The shortest lease that is renewed in time over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

backend! {
    /// Locks in a MySQL or MariaDB database. Cheap to clone; the clones share a few connections.
    Mysql,
    /// A claim on a key in a MySQL or MariaDB database.
    MysqlClaim,
    MysqlDialect, LEASE_MIN
}

impl Mysql {
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
        MysqlConfig::of(&StoreUrl::parse(url, &[MYSQL, MARIADB])?)?.connect().await
    }
}
