//! The locks that everybody writes first in PostgreSQL and in MySQL or MariaDB, and the statements that
//! no lock there can do without. One text for both, over what each spells its own way.

use std::time::Duration;

use tokio::time::sleep;

use super::Rival;

/// How long one who found the row there waits.
const EVERY: Duration = Duration::from_millis(1);

/// How long one waits for a connection of the pool.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each holder of a row, and each who waits for one, has a connection.
const CONNECTIONS: u32 = 16;

/// The way in which a rival locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Two updates of one row, whoever else has it.
    TwoUpdates,
    /// A row that there can be one of is inserted, and deleted.
    UniqueRow,
    /// `SELECT … FOR UPDATE`, and the commit when it is given back.
    ForUpdate,
    /// The lock that a session can have by a name, and gives back.
    OfSession,
}

/// One of them, with a pool as a service has it.
macro_rules! statements {
    ($(#[$doc:meta])* $name:ident, $database:ty, table: $table:literal, update: $update:literal,
     insert: $insert:literal, delete: $delete:literal, select: $select:literal,
     lock: $lock:literal, unlock: $unlock:literal) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $name {
            pool: sqlx::Pool<$database>,
            way: Way,
        }

        impl $name {
            pub(crate) async fn connect(url: &str, way: Way) -> Self {
                let url = url.split('?').next().unwrap_or(url);
                let pool = sqlx::pool::PoolOptions::<$database>::new()
                    .max_connections(if way == Way::TwoUpdates { 4 } else { CONNECTIONS })
                    .acquire_timeout(PATIENCE)
                    // It would ask the connection before each statement whether it is there.
                    .test_before_acquire(false)
                    .connect(url)
                    .await
                    .expect("a server");
                // Another process may make it at the same time.
                if sqlx::query($table).execute(&pool).await.is_err() {
                    let look = "SELECT 1 FROM rival LIMIT 0";
                    sqlx::query(look).execute(&pool).await.expect("a table");
                }
                Self { pool, way }
            }

            /// Makes the row of a key, which one who locks it has to find.
            pub(crate) async fn update(&self, key: &str) {
                let query = sqlx::query($update).bind(key.to_owned());
                query.execute(&self.pool).await.expect("an update");
            }

            async fn insert(&self, key: &str) {
                loop {
                    let done = sqlx::query($insert).bind(key.to_owned()).execute(&self.pool).await;
                    // Where it deadlocks with others (as in MariaDB), it is tried again as well.
                    if done.is_ok_and(|done| done.rows_affected() > 0) {
                        return;
                    }
                    sleep(EVERY).await;
                }
            }

            async fn delete(&self, key: &str) {
                while sqlx::query($delete).bind(key.to_owned()).execute(&self.pool).await.is_err() {
                    sleep(EVERY).await;
                }
            }

            async fn for_update<H: Future<Output = ()> + Send>(
                &self,
                key: &str,
                held: impl FnOnce() -> H + Send,
            ) {
                let mut change = self.pool.begin().await.expect("a transaction");
                let row = sqlx::query($select).bind(key.to_owned()).fetch_one(&mut *change).await;
                row.expect("a row that the work has made");
                held().await;
                change.commit().await.expect("a commit");
            }

            async fn of_session<H: Future<Output = ()> + Send>(
                &self,
                key: &str,
                held: impl FnOnce() -> H + Send,
            ) {
                let mut connection = self.pool.acquire().await.expect("a connection");
                let query = sqlx::query($lock).bind(key.to_owned());
                query.fetch_one(&mut *connection).await.expect("a lock");
                held().await;
                let query = sqlx::query($unlock).bind(key.to_owned());
                query.fetch_one(&mut *connection).await.expect("its lock");
            }
        }

        impl Rival for $name {
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
                    Way::OfSession => self.of_session(key, held).await,
                }
            }
        }
    };
}

statements! {
    /// In PostgreSQL.
    Postgres, sqlx::Postgres,
    table: "CREATE TABLE IF NOT EXISTS rival (name text PRIMARY KEY, n bigint NOT NULL) \
            WITH (fillfactor = 50)",
    update: "INSERT INTO rival VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = rival.n + 1",
    insert: "INSERT INTO rival VALUES ($1, 1) ON CONFLICT (name) DO NOTHING",
    delete: "DELETE FROM rival WHERE name = $1",
    select: "SELECT n FROM rival WHERE name = $1 FOR UPDATE",
    lock: "SELECT pg_advisory_lock(hashtextextended($1, 0))",
    unlock: "SELECT pg_advisory_unlock(hashtextextended($1, 0))"
}

statements! {
    /// In MySQL or MariaDB.
    Mysql, sqlx::MySql,
    table: "CREATE TABLE IF NOT EXISTS rival (name varbinary(99) PRIMARY KEY, n bigint NOT NULL) \
            ENGINE = InnoDB",
    update: "INSERT INTO rival VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1",
    insert: "INSERT IGNORE INTO rival VALUES (?, 1)",
    delete: "DELETE FROM rival WHERE name = ?",
    select: "SELECT n FROM rival WHERE name = ? FOR UPDATE",
    lock: "SELECT GET_LOCK(?, 60)",
    unlock: "SELECT RELEASE_LOCK(?)"
}
