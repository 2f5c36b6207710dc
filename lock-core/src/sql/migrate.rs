//! Making the tables, and showing how.

#[cfg(feature = "mysql")]
use super::mysql::MysqlConfig;
#[cfg(feature = "postgres")]
use super::postgres::PostgresConfig;
use super::schema::Schema;
use super::schemes::{MARIADB, MYSQL, POSTGRES, SQLITE};
#[cfg(feature = "sqlite")]
use super::sqlite::SqliteConfig;
use crate::backend::{ConnectError, StoreUrl};

/// Makes what the store at `url` needs and does not find: the file, the table, the view. What is
/// there stays as it is, so it can be called at each start.
///
/// A SQLite file that is new is in WAL mode, in which readers and the writer do not wait for each
/// other. One that is there keeps its mode.
///
/// # Errors
///
/// As [`LockClient::connect`](crate::LockClient::connect): also where a table of that name is there
/// and has another shape.
///
/// # Cancel safety
///
/// Each statement is made as a whole or not at all; call it again.
pub async fn migrate(url: &str) -> Result<(), ConnectError> {
    match Config::of(url)? {
        #[cfg(feature = "sqlite")]
        Config::Sqlite(config) => config.migrate().await,
        #[cfg(feature = "postgres")]
        Config::Postgres(config) => config.migrate().await,
        #[cfg(feature = "mysql")]
        Config::Mysql(config) => config.migrate().await,
    }
}

/// The schema that the store at `url` needs, to be shown or made by a tool of yours:
/// `println!("{schema}")` is a script. Nothing is opened.
///
/// # Errors
///
/// [`ConnectError::Url`] for a URL of no database.
pub fn schema(url: &str) -> Result<Schema, ConnectError> {
    Ok(match Config::of(url)? {
        #[cfg(feature = "sqlite")]
        Config::Sqlite(config) => config.schema(),
        #[cfg(feature = "postgres")]
        Config::Postgres(config) => config.schema(),
        #[cfg(feature = "mysql")]
        Config::Mysql(config) => config.schema(),
    })
}

enum Config {
    #[cfg(feature = "sqlite")]
    Sqlite(Box<SqliteConfig>),
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresConfig>),
    #[cfg(feature = "mysql")]
    Mysql(Box<MysqlConfig>),
}

impl Config {
    fn of(url: &str) -> Result<Self, ConnectError> {
        // A scheme whose feature is missing is refused by its reader.
        let (_place, url) = StoreUrl::parse_at(url, &[SQLITE, POSTGRES, MYSQL, MARIADB], &[])?;
        #[cfg(feature = "postgres")]
        if url.scheme() == POSTGRES.name() {
            return Ok(Self::Postgres(Box::new(PostgresConfig::of(&url)?)));
        }
        #[cfg(feature = "mysql")]
        if [MYSQL.name(), MARIADB.name()].contains(&url.scheme()) {
            return Ok(Self::Mysql(Box::new(MysqlConfig::of(&url)?)));
        }
        #[cfg(feature = "sqlite")]
        if url.scheme() == SQLITE.name() {
            return Ok(Self::Sqlite(Box::new(SqliteConfig::of(&url)?)));
        }
        Err(ConnectError::Url(crate::backend::UrlError::new(
            crate::backend::UrlPart::Scheme,
            format!("`{}:` is no database", url.scheme()),
        )))
    }
}
