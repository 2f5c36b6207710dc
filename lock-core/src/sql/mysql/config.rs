//! Where a MySQL or MariaDB database is, and what may be made there.

use std::fmt;

use sqlx::MySqlPool;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use super::statements;
use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::sql::remote::Params;
use crate::sql::schema::{Schema, TableName};

/// A MySQL or MariaDB database for locks, before it is connected to. `Debug` shows no login.
///
/// ```no_run
/// use lock_core::LockClient;
/// use lock_core::sql::MysqlConfig;
/// use sqlx::MySqlPool;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The server, the login and TLS are those of the pool that the service has.
/// let pool = MySqlPool::connect("mysql://app:secret@db/shop").await?;
/// let config = MysqlConfig::of_pool(&pool);
/// config.migrate().await?;
/// let locks = LockClient::with_backend(config.connect().await?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MysqlConfig {
    options: MySqlConnectOptions,
    pub(in crate::sql) params: Params,
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlConfig")
            .field("server", &self.server())
            .field("table", &self.params.table)
            .finish_non_exhaustive()
    }
}

impl MysqlConfig {
    /// The database that a pool of yours connects to, with the options of the pool, which have to
    /// name it. The pool's connections are not used: an exhausted pool must not stop a renewal. The
    /// store makes a few of its own.
    #[must_use]
    pub fn of_pool(pool: &MySqlPool) -> Self {
        let options = MySqlConnectOptions::clone(&pool.connect_options());
        Self { options, params: Params::default() }
    }

    /// Names the table of the leases (default: `lock_leases`).
    #[must_use]
    pub fn table(mut self, table: TableName) -> Self {
        self.params.table = table;
        self
    }

    /// Whether connecting makes tables that are missing (default: no).
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.params.creates = creates;
        self
    }

    /// The most connections that the store opens: 1 to 64, default 4. A number beyond that is the
    /// nearest.
    #[must_use]
    pub fn connections(mut self, most: u32) -> Self {
        self.params.connections = Params::connections(most);
        self
    }

    /// The configuration that a URL gives.
    pub(in crate::sql) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        Ok(Self { options: options(url)?, params: Params::of(url)? })
    }

    /// The table and the view that the store needs there.
    #[must_use]
    pub fn schema(&self) -> Schema {
        statements::schema(self.params.table.clone())
    }

    /// The address of the server, for errors.
    pub(super) fn server(&self) -> String {
        format!("{}:{}", self.options.get_host(), self.options.get_port())
    }

    /// The database, for errors.
    pub(super) fn database(&self) -> String {
        self.options.get_database().unwrap_or_default().to_owned()
    }

    /// The user who logs in, for errors that say what to grant.
    pub(super) fn user(&self) -> &str {
        self.options.get_username()
    }

    /// As the store connects.
    pub(in crate::sql) fn own_options(&self) -> MySqlConnectOptions {
        use sqlx::ConnectOptions as _;
        self.options.clone().disable_statement_logging()
    }
}

/// Server, login and TLS.
fn options(url: &StoreUrl) -> Result<MySqlConnectOptions, UrlError> {
    let bad = |part, reason: &str| UrlError::new(part, reason.to_owned());
    let mut options = MySqlConnectOptions::new();
    let host = url.hosts().first().ok_or_else(|| bad(UrlPart::Hosts, "the host is missing"))?;
    options = options.host(host.name()).port(host.port());
    if let Some(login) = url.login() {
        if let Some(user) = login.user() {
            options = options.username(user);
        }
        options = options.password(login.password());
    }
    let name = Params::database(url)?;
    let name = name.ok_or_else(|| bad(UrlPart::Path, "it is the name of a database: `/shop`"))?;
    options = options.database(name);
    if !url.is_tls() {
        return Ok(options.ssl_mode(MySqlSslMode::Disabled));
    }
    options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
    if let Some(ca) = url.param("ca") {
        options = options.ssl_ca(ca);
    }
    Ok(match Params::shown(url)? {
        None => options,
        Some((cert, key)) => options.ssl_client_cert(cert).ssl_client_key(key),
    })
}
