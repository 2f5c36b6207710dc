//! Helpers that the tests of this binary share: a schema of a test's own on one server, and an
//! application in it that may do no more than it must.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, RecordId};
use lock_core::sql::SqlRecords;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres, Transaction};
use tests::database::Shared;
use tests::postgres::PostgresServer;

/// The database that the application keeps its tables in.
pub(crate) type Db = Postgres;

/// The secret of each process.
pub(crate) const SECRET: &str = "the secret of these tests";

/// The tables that an application has beside the records; `{s}` is its schema.
const TABLES: [&str; 3] = [
    "payments (id bigserial PRIMARY KEY, amount bigint NOT NULL)",
    "parents (id bigint PRIMARY KEY)",
    "children (parent bigint NOT NULL REFERENCES {s}.parents (id) DEFERRABLE INITIALLY DEFERRED)",
];

/// An application whose tables are in a schema of its own.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) server: Arc<PostgresServer>,
    pub(crate) name: String,
    pub(crate) pool: PgPool,
    pub(crate) locks: LockClient,
}

impl Shop {
    /// One with all tables, in which the login of the application may do what docs/sql.md says.
    pub(crate) async fn new() -> Self {
        let shop = Self::without_records().await;
        let name = &shop.name;
        let script = SqlRecords::with_pool(&shop.pool).statements().join(";\n");
        shop.server.sql(format!(
            "SET search_path TO {name}; {script}; RESET search_path; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.lock_records TO {name}"
        ));
        shop
    }

    pub(crate) async fn without_records() -> Self {
        static SHOPS: AtomicU32 = AtomicU32::new(0);
        static SERVER: Shared<PostgresServer> = Shared::new();
        let server = SERVER.get(PostgresServer::start);
        let name = format!("shop_{}", SHOPS.fetch_add(1, Ordering::Relaxed));
        let tables = TABLES.map(|table| format!("CREATE TABLE {name}.{table};"));
        let tables = tables.join(" ").replace("{s}", &name);
        server.sql(format!(
            "CREATE ROLE {name} LOGIN; CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO {name}; \
             {tables} GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {name} TO {name}; \
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {name}"
        ));
        let pool = PgPoolOptions::new().max_connections(4);
        let pool = pool.connect_with(options(&server, &name)).await.expect("a server");
        Self { server, name, pool, locks: LockClient::memory() }
    }

    /// How the application logs in.
    pub(crate) fn options(&self) -> PgConnectOptions {
        options(&self.server, &self.name)
    }

    /// Records with connections of their own.
    pub(crate) async fn records(&self) -> SqlRecords {
        SqlRecords::beside(&self.pool).await.expect("a table")
    }

    /// One process: it has locks in memory, which the others share.
    pub(crate) async fn process(&self) -> Idempotency {
        self.process_with(&self.locks).await
    }

    pub(crate) async fn process_with(&self, locks: &LockClient) -> Idempotency {
        Idempotency::new("tests", locks.clone(), self.records().await).with_secret(SECRET)
    }

    pub(crate) async fn begin(&self) -> Transaction<'static, Postgres> {
        self.pool.begin().await.expect("a transaction")
    }

    pub(crate) async fn payments(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM payments");
        count.fetch_one(&self.pool).await.expect("a table")
    }
}

fn options(server: &PostgresServer, name: &str) -> PgConnectOptions {
    server.options().username(name).application_name(name).options([("search_path", name)])
}

/// The condition for a row, given the id.
pub(crate) const WHERE_ID: &str = "WHERE id = $1";

/// Each row that there is, and its state.
pub(crate) const LEFT: &str = "SELECT encode(id, 'hex') || ' ' || state FROM lock_records";

/// These bytes, as they are written in a statement.
pub(crate) fn bytes(hex: &str) -> String {
    format!(r"'\x{hex}'")
}

/// All that a row says.
pub(crate) async fn dumped(pool: &PgPool, id: RecordId) -> Vec<u8> {
    let row = "SELECT r::text FROM lock_records AS r WHERE id = $1";
    let row = sqlx::query_scalar::<_, String>(row).bind(id.as_bytes().to_vec());
    row.fetch_one(pool).await.expect("a row").into_bytes()
}
