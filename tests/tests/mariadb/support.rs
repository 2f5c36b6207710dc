//! A table of a test's own on one server, and its clients.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lock_core::sql::DatabaseError;
use lock_core::{LockClient, LockOptions};
use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnection;
use tests::mariadb::MariaDbServer;
pub(crate) use tests::support::*;

pub(crate) use crate::shop::{Db, LEFT, Shop, WHERE_ID, bytes, dumped};

/// A table on the server that the tests of this binary share.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) server: Arc<MariaDbServer>,
    pub(crate) table: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        static SERVER: Mutex<Weak<MariaDbServer>> = Mutex::new(Weak::new());
        let mut place = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        let server = place.upgrade().unwrap_or_else(|| {
            let server = Arc::new(MariaDbServer::start());
            *place = Arc::downgrade(&server);
            server
        });
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

    /// A connection of a stranger's.
    pub(crate) async fn stranger(&self) -> MySqlConnection {
        self.server.options().connect().await.expect("a connection")
    }
}

/// Why a client is refused at this URL.
pub(crate) async fn refused(url: &str) -> DatabaseError {
    let error = LockClient::connect(url).await.expect_err("there is nothing to connect to");
    database_error(&error)
}

/// What is wrong with the database, somewhere behind an error.
pub(crate) fn database_error(error: &(dyn Error + 'static)) -> DatabaseError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<DatabaseError>() {
            return found.clone();
        }
        next = error.source();
    }
    panic!("no error of a database: {error:?}")
}

/// One try, which is told what is wrong.
pub(crate) fn once() -> LockOptions {
    LockOptions::new().with_wait(ms(500)).with_lease(ms(30_000))
}
