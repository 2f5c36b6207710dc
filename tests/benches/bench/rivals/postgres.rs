//! The locks that everybody writes first in PostgreSQL, and the statements that no lock there can do
//! without.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::time::sleep;

use super::Rival;

/// How long one who found the row there waits.
const EVERY: Duration = Duration::from_millis(1);

/// How long one waits for a connection of the pool.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each holder of a row, and each who waits for one, has a connection.
const CONNECTIONS: u32 = 16;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Two updates of one row, whoever else has it.
    TwoUpdates,
    /// A row that there can be one of is inserted, and deleted.
    UniqueRow,
    /// `SELECT … FOR UPDATE`, and the commit when it is given back.
    ForUpdate,
    /// `pg_advisory_lock` and `pg_advisory_unlock` on one session.
    Advisory,
}

/// One of them, with a pool as a service has it.
#[derive(Clone)]
pub(crate) struct Statements {
    pool: PgPool,
    way: Way,
}

impl Statements {
    pub(crate) async fn connect(url: &str, way: Way) -> Self {
        let url = url.split('?').next().unwrap_or(url);
        let options: PgConnectOptions = url.parse().expect("a URL of the bench");
        let pool = PgPoolOptions::new()
            .max_connections(if way == Way::TwoUpdates { 4 } else { CONNECTIONS })
            .acquire_timeout(PATIENCE)
            // It would ask the connection before each statement whether it is there.
            .test_before_acquire(false)
            .connect_with(options)
            .await
            .expect("a server");
        let table = "CREATE TABLE IF NOT EXISTS rival (name text PRIMARY KEY, n bigint NOT NULL) \
                     WITH (fillfactor = 50)";
        // Another process may make it at the same time.
        let made = sqlx::query(table).execute(&pool).await;
        if made.is_err() {
            sqlx::query("SELECT FROM rival LIMIT 0").execute(&pool).await.expect("a table");
        }
        Self { pool, way }
    }

    /// Makes the row of a key, which one who locks it has to find.
    pub(crate) async fn update(&self, key: &str) {
        let add =
            "INSERT INTO rival VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = rival.n + 1";
        sqlx::query(add).bind(key.to_owned()).execute(&self.pool).await.expect("an update");
    }

    async fn insert(&self, key: &str) {
        let insert = "INSERT INTO rival VALUES ($1, 1) ON CONFLICT (name) DO NOTHING";
        loop {
            let query = sqlx::query(insert).bind(key.to_owned());
            if query.execute(&self.pool).await.expect("an insert").rows_affected() > 0 {
                return;
            }
            sleep(EVERY).await;
        }
    }

    async fn delete(&self, key: &str) {
        let query = sqlx::query("DELETE FROM rival WHERE name = $1").bind(key.to_owned());
        query.execute(&self.pool).await.expect("a deletion");
    }

    async fn for_update<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let connection: &mut PgConnection = &mut connection;
        let select = "SELECT n FROM rival WHERE name = $1 FOR UPDATE";
        let mut change = connection.begin().await.expect("a transaction");
        let row = sqlx::query(select).bind(key.to_owned()).fetch_one(&mut *change).await;
        row.expect("a row that the work has made");
        held().await;
        change.commit().await.expect("a commit");
    }

    async fn advisory<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let lock = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
        let query = sqlx::query(lock).bind(key.to_owned());
        query.execute(&mut *connection).await.expect("a lock");
        held().await;
        let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
        let query = sqlx::query(unlock).bind(key.to_owned());
        query.execute(&mut *connection).await.expect("its lock");
    }
}

impl Rival for Statements {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        match self.way {
            Way::TwoUpdates => {
                self.update(key).await;
                held().await;
                self.update(key).await;
            }
            Way::UniqueRow => {
                self.insert(key).await;
                held().await;
                self.delete(key).await;
            }
            Way::ForUpdate => self.for_update(key, held).await,
            Way::Advisory => self.advisory(key, held).await,
        }
    }
}
