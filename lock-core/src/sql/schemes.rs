//! The parts that the URLs of databases may hold. They are here without the features too, so that
//! an error can name what is missing.

use crate::backend::Scheme;

/// The usual port of a PostgreSQL server.
const POSTGRES_PORT: u16 = 5_432;

/// A file, or a database in this process.
pub(crate) const SQLITE: Scheme = Scheme::new("sqlite")
    .with_file()
    .with_params(&["table", "create"])
    .behind(("sqlite", cfg!(feature = "sqlite")), ("sqlite", cfg!(feature = "sqlite")));

/// The usual port of a MySQL or MariaDB server.
const MYSQL_PORT: u16 = 3_306;

/// A server, behind which the path names the database.
pub(crate) const MYSQL: Scheme = of_mysql("mysql");

/// The same by its other name.
pub(crate) const MARIADB: Scheme = of_mysql("mariadb");

const fn of_mysql(name: &'static str) -> Scheme {
    Scheme::new(name)
        .with_hosts(1, MYSQL_PORT)
        .with_login()
        .with_path()
        .with_params(&["table", "create", "durability", "connections"])
        .with_tls_params(&["ca", "cert", "key"])
        .behind(("mysql", cfg!(feature = "mysql")), ("mysql-tls", cfg!(feature = "mysql-tls")))
}

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
