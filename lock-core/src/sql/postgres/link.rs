//! Statements over the pool, asked again where that is safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::postgres::PgRow;

use super::arg::Arg;
use super::config::PostgresConfig;
use super::pool::Pool;
use super::session::{Session, Way};
use super::trouble::Unserved;
use crate::backend::Fault;
use crate::backend::io::{Home, Pauses};
use crate::ground::{Plus as _, clock};
use crate::sql::fault::DatabaseError;
use crate::sql::schema::Schema;

/// Between two tries of a statement that another transaction stood in the way of.
const AGAIN: Pauses = Pauses::new(Duration::from_millis(1), Duration::from_millis(50));

/// What a statement does that is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    /// The same as once, and its answer is as good.
    Same,
    /// Its answer is another one.
    Differs,
}

/// A server, and how to ask it.
#[derive(Debug)]
pub(in crate::sql) struct Link {
    pool: Arc<Pool>,
    schema: Schema,
    home: Arc<Home>,
}

type Work<'a> = dyn for<'s> Fn(&'s mut Session) -> BoxFuture<'s, Result<Vec<PgRow>, sqlx::Error>>
    + Send
    + Sync
    + 'a;

impl Link {
    pub(super) fn new(config: PostgresConfig, home: Arc<Home>) -> Self {
        let schema = config.schema();
        let pool = Arc::new(Pool::new(config, home.clone()));
        Self { pool, schema, home }
    }

    pub(super) fn config(&self) -> &PostgresConfig {
        &self.pool.config
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(super) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    pub(super) fn way(&self) -> Option<Way> {
        self.pool.way()
    }

    /// Has one statement run, which commits by itself. To be polled at home, and to its end, which
    /// is `by` at the latest.
    pub(super) async fn run(
        &self,
        by: Instant,
        statement: &Arc<str>,
        args: &[Arg],
        twice: Twice,
    ) -> Result<Vec<PgRow>, Fault> {
        let work: &Work<'_> = &|session| {
            let (statement, args) = (statement.clone(), args.to_vec());
            Box::pin(async move { session.run(&statement, &args).await })
        };
        self.ask(by, work, twice).await
    }

    /// Has some statements run in one transaction, without values.
    pub(super) async fn run_all(&self, by: Instant, script: &str) -> Result<(), Fault> {
        let work: &Work<'_> = &|session| {
            let script = script.to_owned();
            Box::pin(async move { session.run_all(script).await })
        };
        self.ask(by, work, Twice::Same).await.map(drop)
    }

    async fn ask(&self, by: Instant, work: &Work<'_>, twice: Twice) -> Result<Vec<PgRow>, Fault> {
        let (begun, mut tries) = (clock::now(), 0);
        loop {
            let mut lent = self.pool.lend(by).await.map_err(|error| Fault::from(error).unsent())?;
            let Some(mut session) = lent.take() else { continue };
            let was_used = session.answered.is_some();
            let Ok(answer) = self.home.timeout_at(by, work(&mut session)).await else {
                self.pool.close_older_than(begun);
                let server = self.config().server();
                let what = "it did not answer in time".to_owned();
                return Err(DatabaseError::Unreachable { server, what }.into());
            };
            let trouble = match answer {
                Ok(rows) => {
                    lent.put_back(session);
                    return Ok(rows);
                }
                Err(error) => Unserved::of(error, self.config()),
            };
            let error = match trouble {
                Unserved::Again(error) => {
                    lent.put_back(session);
                    error
                }
                // The next connection may be one to a server that takes writes.
                Unserved::Refused(error @ DatabaseError::ReadOnlyServer { .. }) => {
                    self.pool.close_older_than(clock::now());
                    return Err(Fault::from(error).unsent());
                }
                Unserved::Refused(error) => {
                    lent.put_back(session);
                    return Err(Fault::from(error).unsent());
                }
                Unserved::Gone(error) => {
                    self.pool.close_older_than(begun);
                    // An old connection may have ended long before.
                    if was_used && twice == Twice::Same && tries == 0 {
                        tries += 1;
                        continue;
                    }
                    return Err(error.into());
                }
            };
            drop(lent);
            tries += 1;
            let next = clock::now().plus(AGAIN.after(tries));
            if next >= by {
                return Err(Fault::from(error).unsent());
            }
            self.home.sleep_until(next).await;
        }
    }
}
