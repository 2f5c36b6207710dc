//! What the URLs of databases may hold. Here without their features too, so that an error can name
//! what is missing.

use crate::backend::Scheme;

/// Where a PostgreSQL server listens.
const POSTGRES_PORT: u16 = 5_432;

/// A file, or a database in this process.
pub(crate) const SQLITE: Scheme = Scheme::new("sqlite")
    .with_file()
    .with_params(&["table", "create"])
    .behind(("sqlite", cfg!(feature = "sqlite")), ("sqlite", cfg!(feature = "sqlite")));

/// A server, behind which the path names the database.
pub(crate) const POSTGRES: Scheme = Scheme::new("postgres")
    .with_hosts(1, POSTGRES_PORT)
    .with_login()
    .with_path()
    .with_params(&["table", "schema", "create", "durability", "connections"])
    .with_tls_params(&["ca", "cert", "key"])
    .behind(
        ("postgres", cfg!(feature = "postgres")),
        ("postgres-tls", cfg!(feature = "postgres-tls")),
    );
