//! A table of a test's own on one server, and its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::LockClient;
pub(crate) use lock_core::sql::Postgres as Store;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnection;
use tests::database::Shared;
pub(crate) use tests::database::{database_error, once, refused};
use tests::postgres::PostgresServer;
pub(crate) use tests::postgres::{PostgresOptions as Options, PostgresServer as Server};
use tests::proxy::Proxy;
pub(crate) use tests::support::*;

/// A connection of somebody else's.
pub(crate) type Stranger = PgConnection;

/// Has a user `app` of its own, who may use the database.
pub(crate) const MAKES_APP: &str = "CREATE ROLE app LOGIN; GRANT ALL ON SCHEMA public TO app";

/// Columns of a table that is none of ours, and what is said of them.
pub(crate) const SHAPES: [(&str, &str); 3] = [
    ("name text PRIMARY KEY", "no column `version`"),
    ("name text, version bigint", "no column `fence`"),
    ("name text COLLATE \"C\" PRIMARY KEY, version text", "no bigint"),
];

/// A table on the server that the tests of this binary share.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) server: Arc<PostgresServer>,
    pub(crate) table: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        static SERVER: Shared<PostgresServer> = Shared::new();
        let server = SERVER.get(PostgresServer::start);
        let table = format!("own_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        Self { server, table }
    }

    /// A table on a server of its own.
    pub(crate) fn alone() -> Self {
        Self { server: Arc::new(PostgresServer::start()), table: "own".to_owned() }
    }

    /// The URL of a table that is there, as this user.
    pub(crate) fn url_as(&self, user: &str) -> String {
        format!("{}?table={}", self.server.url_as(user), self.table)
    }

    pub(crate) fn url(&self) -> String {
        self.url_as("postgres")
    }

    /// The URL of another one, in the same database.
    pub(crate) fn url_beside(&self) -> String {
        format!("{}&schema=s_{}", self.url(), self.table)
    }

    /// The URL of one that is made.
    pub(crate) fn new_url(&self) -> String {
        self.url() + "&create=true"
    }

    /// The same over a proxy, by one connection.
    pub(crate) fn url_through(&self, proxy: &Proxy) -> String {
        let (addr, table) = (proxy.addr(), &self.table);
        format!(
            "postgres://postgres:secret@{addr}/postgres?table={table}&create=true&connections=1"
        )
    }

    pub(crate) async fn client(&self) -> LockClient {
        connect(&self.new_url(), ms(30_000)).await
    }

    /// A user that may log in, and nothing else; named after the table.
    pub(crate) fn new_user(&self) -> String {
        let user = format!("user_{}", self.table);
        self.server.sql(format!("CREATE ROLE {user} LOGIN"));
        user
    }

    pub(crate) async fn stranger(&self) -> Stranger {
        self.server.options().application_name("stranger").connect().await.expect("a connection")
    }
}
