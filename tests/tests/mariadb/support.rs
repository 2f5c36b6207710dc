//! A table of a test's own on one server, and its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::LockClient;
pub(crate) use lock_core::sql::Mysql as Store;
use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnection;
use tests::database::Shared;
pub(crate) use tests::database::{database_error, once, refused};
use tests::mariadb::MariaDbServer;
pub(crate) use tests::mariadb::{MariaDbOptions as Options, MariaDbServer as Server};
pub(crate) use tests::support::*;

pub(crate) use crate::shop::{Db, LEFT, Shop, WHERE_ID, bytes, dumped};

/// A connection of somebody else's.
pub(crate) type Stranger = MySqlConnection;

/// Has a user `app` of its own, who may use the database.
pub(crate) const MAKES_APP: &str =
    "CREATE USER app IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO app";

/// Columns of a table that is none of ours, and what is said of them.
pub(crate) const SHAPES: [(&str, &str); 4] = [
    ("name varchar(99) PRIMARY KEY", "is no varbinary"),
    ("name varbinary(99) PRIMARY KEY", "no column `version`"),
    ("name varbinary(99), version bigint", "no column `fence`"),
    ("name varbinary(99) PRIMARY KEY, version text", "no bigint"),
];

/// A table on the server that the tests of this binary share.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) server: Arc<MariaDbServer>,
    pub(crate) table: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        static SERVER: Shared<MariaDbServer> = Shared::new();
        let server = SERVER.get(MariaDbServer::start);
        let table = format!("own_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        Self { server, table }
    }

    /// A table on a server of its own.
    pub(crate) fn alone() -> Self {
        Self { server: Arc::new(MariaDbServer::start()), table: "own".to_owned() }
    }

    /// The URL of a table that is there, as this user.
    pub(crate) fn url_as(&self, user: &str) -> String {
        format!("{}?table={}", self.server.url_as(user), self.table)
    }

    pub(crate) fn url(&self) -> String {
        self.url_as("owner")
    }

    /// The URL of another one, in the same database.
    pub(crate) fn url_beside(&self) -> String {
        format!("{}?table=h_{}", self.server.url_as("owner"), self.table)
    }

    /// The URL of one that is made.
    pub(crate) fn new_url(&self) -> String {
        self.url() + "&create=true"
    }

    pub(crate) async fn client(&self) -> LockClient {
        connect(&self.new_url(), ms(30_000)).await
    }

    /// A user that may log in, and nothing else; named after the table.
    pub(crate) fn new_user(&self) -> String {
        let user = format!("user_{}", self.table);
        self.server.sql(format!("CREATE USER {user} IDENTIFIED BY 'secret'"));
        user
    }

    pub(crate) async fn stranger(&self) -> Stranger {
        self.server.options().connect().await.expect("a connection")
    }
}
