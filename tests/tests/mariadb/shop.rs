//! An application of MariaDB with idempotency records, which has the least rights.

use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, RecordId};
use lock_core::sql::SqlRecords;
use sqlx::{MySql, MySqlPool};

use crate::support::Place;

/// The database that the application keeps its tables in.
pub(crate) type Db = MySql;

/// An application whose tables are in a database of its own.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) pool: MySqlPool,
    place: Place,
    name: String,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        static SHOPS: AtomicU32 = AtomicU32::new(0);
        let place = Place::new();
        let name = format!("shop_{}", SHOPS.fetch_add(1, Ordering::Relaxed));
        place.server.sql(format!(
            "CREATE DATABASE {name}; CREATE USER {name} IDENTIFIED BY 'secret'; \
             CREATE TABLE {name}.payments (id int AUTO_INCREMENT PRIMARY KEY, amount int); \
             GRANT SELECT, INSERT ON {name}.payments TO {name}"
        ));
        let options = place.server.options().username(&name).database(&name);
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(4);
        let pool = pool.connect_lazy_with(options);
        let script = SqlRecords::with_pool(&pool).statements().join(";");
        place.server.sql(format!(
            "USE {name}; {script}; USE shop; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.lock_records TO {name}"
        ));
        Self { pool, place, name }
    }

    /// Has a statement run as the owner, with the name of the database in place of `{shop}`.
    pub(crate) fn owner_says(&self, text: &str) {
        self.place.server.sql(text.replace("{shop}", &self.name));
    }

    pub(crate) async fn records(&self) -> SqlRecords {
        SqlRecords::beside(&self.pool).await.expect("a table")
    }

    /// One process, with locks of these.
    pub(crate) async fn process(&self, locks: &LockClient) -> Idempotency {
        Idempotency::new("tests", locks.clone(), self.records().await)
            .with_secret("the secret of these tests")
    }

    pub(crate) async fn payments(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM payments");
        count.fetch_one(&self.pool).await.expect("a table")
    }
}

/// The condition for a row, given the id.
pub(crate) const WHERE_ID: &str = "WHERE id = ?";

/// Each row that there is, and its state.
pub(crate) const LEFT: &str = "SELECT CONCAT(HEX(id), ' ', state) FROM lock_records";

/// These bytes, as they are written in a statement.
pub(crate) fn bytes(hex: &str) -> String {
    format!("X'{hex}'")
}

/// All that a row says.
pub(crate) async fn dumped(pool: &MySqlPool, id: RecordId) -> Vec<u8> {
    let row = "SELECT CAST(CONCAT_WS(' ', HEX(id), layout, version, state, token, barred, since, \
               until, back_token, back_first, back_since, back_until, HEX(fingerprint), \
               payload_bytes, payload) AS BINARY) FROM lock_records WHERE id = ?";
    let row = sqlx::query_scalar::<_, Vec<u8>>(row).bind(id.as_bytes().to_vec());
    row.fetch_one(pool).await.expect("a row")
}
