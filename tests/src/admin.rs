//! Statements that a fixture itself has its database run, from any thread.

use std::sync::Arc;

use futures_executor::block_on;
use lock_core::backend::io::Home;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Database, Executor};
use tokio::sync::Mutex;

/// A connection on a runtime of its own, made when it is needed.
#[derive(Debug)]
pub(crate) struct Admin<D: Database> {
    home: Arc<Home>,
    connection: Arc<Mutex<Option<D::Connection>>>,
}

impl<D> Admin<D>
where
    D: Database,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    pub(crate) fn new(thread: &str) -> Self {
        Self { home: Home::start(thread).expect("a thread"), connection: Arc::default() }
    }

    /// The server is another one from now on.
    pub(crate) fn forget(&self) {
        let connection = self.connection.clone();
        block_on(self.home.spawn(async move { drop(connection.lock().await.take()) }))
            .expect("no panic");
    }

    /// Has statements run; their rows.
    pub(crate) fn ask(
        &self,
        options: <D::Connection as Connection>::Options,
        text: String,
    ) -> Result<Vec<D::Row>, sqlx::Error> {
        let connection = self.connection.clone();
        let task = self.home.spawn(async move {
            let mut place = connection.lock().await;
            let mut open = match place.take() {
                Some(open) => open,
                None => options.connect().await?,
            };
            let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut open).await;
            if !matches!(rows, Err(sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) {
                *place = Some(open);
            }
            rows
        });
        block_on(task).expect("no panic")
    }
}
