//! Statements over the pool, asked again where that is safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::pool::{CONNECT, IDLE_MAX, Kept, Pool};
use super::server::Server;
use super::unserved::Unserved;
use crate::backend::io::{Home, Pauses};
use crate::backend::{ConnectError, Fault, FaultKind};
use crate::ground::{Plus as _, clock};
use crate::sql::fault::DatabaseError;
use crate::sql::lane::Lane;
use crate::sql::schema::Schema;

/// Between two tries of a statement that another transaction stood in the way of.
const AGAIN: Pauses = Pauses::new(Duration::from_millis(1), Duration::from_millis(50));

/// The effect of a statement that is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sql) enum Twice {
    /// The same as once, and its answer is as good.
    Same,
    /// Its answer is another one.
    Differs,
}

/// A server, and how to ask it.
#[derive(Debug)]
pub(in crate::sql) struct Link<S: Server> {
    pool: Arc<Pool<S>>,
    schema: Schema,
    home: Arc<Home>,
    _kept: Kept,
}

/// The work that is done over a connection.
pub(in crate::sql) type Work<'a, S, T> = dyn for<'s> Fn(&'s mut <S as Server>::Session) -> BoxFuture<'s, Result<T, sqlx::Error>>
    + Send
    + Sync
    + 'a;

/// Asks a server for what `prepare` wants, and is a link to it then.
pub(in crate::sql) async fn opened<S, F>(
    server: S,
    schema: Schema,
    prepare: impl FnOnce(Arc<Link<S>>, Instant) -> F,
) -> Result<Arc<Link<S>>, ConnectError>
where
    S: Server,
    F: Future<Output = Result<(), Fault>> + Send + 'static,
{
    let home = Home::shared().map_err(ConnectError::Store)?;
    let pool = Arc::new(Pool::new(server, home.clone()));
    let _kept = pool.keep(IDLE_MAX);
    let link = Arc::new(Link { pool, schema, home: home.clone(), _kept });
    let by = clock::now().plus(CONNECT);
    let task = home.spawn(prepare(link.clone(), by));
    let answer = match home.timeout_at(by, task).await {
        Ok(Ok(answer)) => answer,
        _ => Err(Fault::new(FaultKind::Transient, format!("no answer within {CONNECT:?}"))),
    };
    answer.map_err(ConnectError::Store)?;
    Ok(link)
}

/// A statement that was sent once may have run, whatever its second try says.
fn unsent_unless(may_have_run: bool, fault: impl Into<Fault>) -> Fault {
    let fault = fault.into();
    if may_have_run { fault } else { fault.unsent() }
}

impl<S: Server> Link<S> {
    pub(in crate::sql) fn server(&self) -> &S {
        &self.pool.server
    }

    pub(in crate::sql) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(in crate::sql) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Has statements run over a connection, each of which commits by itself. To be polled at home,
    /// and to its end, which is `by` at the latest.
    pub(in crate::sql) async fn ask<T>(
        &self,
        by: Instant,
        twice: Twice,
        work: &Work<'_, S, T>,
    ) -> Result<T, Fault> {
        let (begun, mut tries) = (clock::now(), 0);
        let mut may_have_run = false;
        loop {
            let mut lent = self
                .pool
                .lend(Lane::here(), by)
                .await
                .map_err(|fault| unsent_unless(may_have_run, fault))?;
            let Some(mut used) = lent.take() else { continue };
            let (was_used, asked) = (used.answered.is_some(), clock::now());
            let Ok(answer) = self.home.timeout_at(by, work(&mut used.session)).await else {
                self.pool.close_older_than(begun);
                let server = self.server().place();
                let what = "it did not answer in time".to_owned();
                return Err(DatabaseError::Unreachable { server, what }.into());
            };
            let trouble = match answer {
                Ok(answer) => {
                    used.answered = Some(clock::now());
                    lent.put_back(used);
                    return Ok(answer);
                }
                Err(error) => self.server().unserved(error),
            };
            let (error, waits) = match trouble {
                Unserved::Again(error) => {
                    lent.put_back(used);
                    (error, Duration::ZERO)
                }
                Unserved::Waited(error) => {
                    lent.put_back(used);
                    (error, clock::now().saturating_duration_since(asked))
                }
                // The next connection may be one to a server that takes writes.
                Unserved::Refused(error @ DatabaseError::ReadOnlyServer { .. }) => {
                    self.pool.close_older_than(clock::now());
                    return Err(unsent_unless(may_have_run, error));
                }
                Unserved::Refused(error) => {
                    lent.put_back(used);
                    return Err(unsent_unless(may_have_run, error));
                }
                Unserved::Gone(error) => {
                    self.pool.close_older_than(begun);
                    // An old connection may have ended long before.
                    if was_used && twice == Twice::Same && tries == 0 {
                        tries += 1;
                        may_have_run = true;
                        continue;
                    }
                    return Err(error.into());
                }
            };
            drop(lent);
            tries += 1;
            let next = clock::now().plus(AGAIN.after(tries));
            if next.plus(waits) >= by {
                return Err(unsent_unless(may_have_run, error));
            }
            self.home.sleep_until(next).await;
        }
    }
}
