//! Where a PostgreSQL database is, and what may be made there.

use std::fmt;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::statements::{self, qualified};
use crate::backend::{StoreUrl, UrlError, UrlPart};
use crate::sql::remote::{Durability, Params};
use crate::sql::schema::{Schema, TableName};

/// The server ends a statement that takes longer, and one that waits longer for a row.
const STATEMENT: &str = "2000";
const ROW: &str = "1500";

/// How the server shows [`STATEMENT`].
pub(super) const STATEMENT_SHOWN: &str = "2s";

/// The way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The connection is ours alone, with settings of its own, and statements are prepared on it.
    Direct,
    /// A pooler stands between, which may give each statement another connection. Nothing is set,
    /// and nothing is prepared.
    Pooled,
}

/// A PostgreSQL database for locks, before it is connected to. `Debug` shows no login.
///
/// ```no_run
/// use lock_core::LockClient;
/// use lock_core::sql::PostgresConfig;
/// use sqlx::PgPool;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The server, the login and TLS are those of the pool that the service has.
/// let pool = PgPool::connect("postgres://app:secret@db/shop").await?;
/// let config = PostgresConfig::of_pool(&pool);
/// config.migrate().await?;
/// let locks = LockClient::with_backend(config.connect().await?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresConfig {
    options: PgConnectOptions,
    pub(in crate::sql) params: Params,
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("server", &self.server())
            .field("table", &self.qualified_table())
            .field("durability", &self.params.durability)
            .finish_non_exhaustive()
    }
}

impl PostgresConfig {
    /// The database that a pool of yours connects to, with the options of the pool. The pool's
    /// connections are not used: an exhausted pool must not stop a renewal. The store makes a few
    /// of its own.
    #[must_use]
    pub fn of_pool(pool: &PgPool) -> Self {
        let options = PgConnectOptions::clone(&pool.connect_options());
        Self { options, params: Params::default() }
    }

    /// Names the table of the leases (default: `lock_leases`).
    #[must_use]
    pub fn table(mut self, table: TableName) -> Self {
        self.params.table = table;
        self
    }

    /// Names the schema of the table (default: the first of the login's `search_path`).
    #[must_use]
    pub fn within(mut self, schema: TableName) -> Self {
        self.params.within = Some(schema);
        self
    }

    /// Whether connecting makes tables that are missing (default: no).
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.params.creates = creates;
        self
    }

    /// Sets what has to be on the server's disk before a grant is answered.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.params.durability = durability;
        self
    }

    /// The most connections that the store opens, beside the one that it listens on: 1 to 64,
    /// default 4. A number beyond that is the nearest.
    #[must_use]
    pub fn connections(mut self, most: u32) -> Self {
        self.params.connections = Params::connections(most);
        self
    }

    /// The configuration that a URL gives.
    pub(in crate::sql) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let params = Params::of(url)?;
        Ok(Self { options: options(url)?, params })
    }

    /// The table and the view that the store needs there.
    #[must_use]
    pub fn schema(&self) -> Schema {
        statements::schema(self.params.within.as_ref(), self.params.table.clone())
    }

    /// The name of the table in statements.
    pub(super) fn qualified_table(&self) -> String {
        qualified(self.params.within.as_ref(), &self.params.table.to_string())
    }

    /// The address of the server, for errors.
    pub(super) fn server(&self) -> String {
        format!("{}:{}", self.options.get_host(), self.options.get_port())
    }

    /// The database, for errors.
    pub(super) fn database(&self) -> String {
        self.options.get_database().unwrap_or(self.options.get_username()).to_owned()
    }

    /// The user who logs in, for errors that say what to grant.
    pub(super) fn user(&self) -> &str {
        self.options.get_username()
    }

    /// As the records connect: the server ends what takes too long.
    #[cfg(feature = "idempotency")]
    pub(in crate::sql) fn bounded_options(&self) -> PgConnectOptions {
        self.own_options(Way::Direct)
    }

    /// As the store connects.
    pub(super) fn own_options(&self, way: Way) -> PgConnectOptions {
        use sqlx::ConnectOptions as _;
        let options = self.options.clone().extra_float_digits(None).disable_statement_logging();
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("lock-core"),
        };
        match (way, self.params.durability) {
            (Way::Pooled, _) => options,
            (Way::Direct, durability) => {
                let options =
                    options.options([("statement_timeout", STATEMENT), ("lock_timeout", ROW)]);
                match durability {
                    Durability::Full => options,
                    Durability::Async => options.options([("synchronous_commit", "off")]),
                }
            }
        }
    }
}

/// Server, login and TLS. What the URL does not say of the login is as `libpq` has it: `PGUSER`,
/// `PGPASSWORD`.
fn options(url: &StoreUrl) -> Result<PgConnectOptions, UrlError> {
    let bad = |part, reason: &str| UrlError::new(part, reason.to_owned());
    let mut options = PgConnectOptions::new_without_pgpass();
    let host = url.hosts().first().ok_or_else(|| bad(UrlPart::Hosts, "the host is missing"))?;
    options = options.host(host.name()).port(host.port());
    if let Some(login) = url.login() {
        if let Some(user) = login.user() {
            options = options.username(user);
        }
        options = options.password(login.password());
    }
    if let Some(name) = Params::database(url)? {
        options = options.database(name);
    }
    if !url.is_tls() {
        return Ok(options.ssl_mode(PgSslMode::Disable));
    }
    options = options.ssl_mode(PgSslMode::VerifyFull);
    if let Some(ca) = url.param("ca") {
        options = options.ssl_root_cert(ca);
    }
    Ok(match Params::shown(url)? {
        None => options,
        Some((cert, key)) => options.ssl_client_cert(cert).ssl_client_key(key),
    })
}
