//! Commands through an application's own pool.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::PoolError;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

use super::fault;
use super::request::{self, Failure, Request, Sent, Unserved, WrongServer};
use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock, timeout};

/// An application's own `deadpool_redis` pool: of one server, of a master that Sentinel names, or
/// of a cluster.
#[derive(Clone)]
pub struct RedisPool(Kind);

#[derive(Clone)]
enum Kind {
    Server(deadpool_redis::Pool),
    Sentinel(deadpool_redis::sentinel::Pool),
    Cluster(deadpool_redis::cluster::Pool),
}

impl From<deadpool_redis::Pool> for RedisPool {
    fn from(pool: deadpool_redis::Pool) -> Self {
        Self(Kind::Server(pool))
    }
}

impl From<deadpool_redis::sentinel::Pool> for RedisPool {
    fn from(pool: deadpool_redis::sentinel::Pool) -> Self {
        Self(Kind::Sentinel(pool))
    }
}

impl From<deadpool_redis::cluster::Pool> for RedisPool {
    fn from(pool: deadpool_redis::cluster::Pool) -> Self {
        Self(Kind::Cluster(pool))
    }
}

/// The connection that a pool gives within the time of a request.
macro_rules! connection {
    ($pool:expr) => {
        match timeout::within(request::REQUEST_WITHIN, $pool.get()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(unsent(refused(error)).into()),
            Err(_) => return Err(unsent(exhausted()).into()),
        }
    };
}

/// Has a connection of a pool of servers serve a request, or does what a cluster's does. One that
/// leads to another server than the master, or to a server that only reads, is taken from the pool,
/// which would give it out again for good: a replica answers a ping.
macro_rules! serve {
    ($kind:expr, |$link:ident| $answer:expr, |$cluster:pat_param| $other:expr) => {
        match $kind {
            Kind::Server(pool) => serve!(pool, deadpool_redis::Connection, |$link| $answer),
            Kind::Sentinel(pool) => {
                serve!(pool, deadpool_redis::sentinel::Connection, |$link| $answer)
            }
            Kind::Cluster($cluster) => $other,
        }
    };
    ($pool:expr, $connection:path, |$link:ident| $answer:expr) => {{
        let $link = connection!($pool);
        let answer: Result<Value, WrongServer> = $answer;
        let sent = from_here((*$link).clone());
        if answer.as_ref().is_err_and(leads_elsewhere) {
            drop(<$connection>::take($link));
        }
        answer.map_err(|wrong| WrongServer {
            unserved: Unserved { sent: Some(sent), ..wrong.unserved },
            again: wrong.again,
        })
    }};
}

impl RedisPool {
    pub(in crate::redis) fn is_of_cluster(&self) -> bool {
        matches!(self.0, Kind::Cluster(_))
    }

    /// Sends one request over a connection of the pool, which nobody else uses meanwhile.
    pub(in crate::redis) async fn send(&self, request: Request<'_>) -> Result<Value, WrongServer> {
        let within = request::REQUEST_WITHIN;
        serve!(
            &self.0,
            |link| request.send(&mut patient(&link), within).await.map_err(WrongServer::from),
            |pool| {
                if request.replicas.is_some() {
                    let what = "a grant through a pool of a cluster cannot wait for replicas";
                    return Err(unsent(Fault::new(FaultKind::Refused, what)).into());
                }
                let mut connection = connection!(pool);
                // It stands for the connections to all nodes, and tells of none.
                Ok(request.send(&mut *connection, within).await?)
            }
        )
    }

    /// Sends one request, which only counts if it is answered before `superseded`, and by whom
    /// `is_master` finds right by its name.
    pub(in crate::redis) async fn send_to<F>(
        &self,
        request: Request<'_>,
        is_master: impl FnOnce(Option<String>) -> F,
        superseded: impl Future<Output = ()>,
    ) -> Result<Value, WrongServer>
    where
        F: Future<Output = Result<(), WrongServer>>,
    {
        serve!(&self.0, |link| before(superseded, over(&link, request, is_master)).await, |_| {
            let what = "the pool is of a cluster, and the URL of sentinels";
            Err(unsent(Fault::new(FaultKind::Refused, what)).into())
        })
    }

    /// Drops the connections that nobody uses now.
    pub(in crate::redis) fn forget_idle(&self) {
        match &self.0 {
            Kind::Server(pool) => drop(pool.retain(|_, _| false)),
            Kind::Sentinel(pool) => drop(pool.retain(|_, _| false)),
            Kind::Cluster(_) => {}
        }
    }
}

/// The answer, if it comes while the term goes on.
async fn before(
    superseded: impl Future<Output = ()>,
    answer: impl Future<Output = Result<Value, WrongServer>>,
) -> Result<Value, WrongServer> {
    tokio::select! {
        biased;
        () = superseded => Err(Failure::Other(fault::superseded()).into()),
        answer = answer => answer,
    }
}

/// Sends a request and asks who answers, which `is_master` has to find right.
async fn over<F>(
    connection: &MultiplexedConnection,
    request: Request<'_>,
    is_master: impl FnOnce(Option<String>) -> F,
) -> Result<Value, WrongServer>
where
    F: Future<Output = Result<(), WrongServer>>,
{
    let mut connection = patient(connection);
    let until = clock::now().plus(request::REQUEST_WITHIN);
    let mut pipeline = redis::pipe();
    pipeline.add_command(request.command.clone()).add_command(request::who());
    let answers = send_all(&mut connection, &pipeline, 2, request::REQUEST_WITHIN).await?;
    let strange = || Failure::Other(fault::strange("a pipeline"));
    let (answer, who) = pair(answers).ok_or_else(strange)?;
    is_master(request::run_id(who)).await?;
    Ok(request.replicated(answer, &mut connection, until).await?)
}

fn pair(answers: Value) -> Option<(Value, Value)> {
    let Value::Array(answers) = answers else { return None };
    <[Value; 2]>::try_from(answers).ok().map(|[first, second]| (first, second))
}

/// The same connection, that gives a request the time that it has here: the application's may be
/// shorter than a wait for replicas.
fn patient(connection: &MultiplexedConnection) -> MultiplexedConnection {
    let mut connection = connection.clone();
    connection.set_response_timeout(request::REQUEST_WITHIN);
    connection
}

impl fmt::Debug for RedisPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Server(_) => "Server",
            Kind::Sentinel(_) => "Sentinel",
            Kind::Cluster(_) => "Cluster",
        };
        // The pool's own text could show a password.
        f.debug_tuple("RedisPool").field(&kind).finish()
    }
}

fn unsent(fault: Fault) -> Unserved {
    Unserved { fault: Failure::Other(fault.unsent()), sent: None }
}

/// The pool gave no connection.
fn refused(error: PoolError) -> Fault {
    match error {
        PoolError::Backend(error) => fault::fault(error),
        error => Fault::new(FaultKind::Transient, format!("the application's pool: {error}")),
    }
}

/// The pool gave no connection in time.
fn exhausted() -> Fault {
    Fault::new(FaultKind::Transient, "the application's pool had no connection within 2 s")
}

/// Over a connection of a pool, which does not tell whose it is.
fn from_here(connection: MultiplexedConnection) -> Arc<Sent> {
    Sent { connection, runtime: Handle::current() }.into()
}

/// Whether the server is another than the master, or a replica.
fn leads_elsewhere(wrong: &WrongServer) -> bool {
    let Failure::Server(error) = &wrong.unserved.fault else { return wrong.again.is_some() };
    fault::is_read_only(error)
}

/// Sends several commands in one write; all answers in an array, unless one is an error.
async fn send_all(
    connection: &mut impl redis::aio::ConnectionLike,
    pipeline: &redis::Pipeline,
    count: usize,
    within: Duration,
) -> Result<Value, Failure> {
    let answers = connection.req_packed_commands(pipeline, 0, count);
    match timeout::within(within, answers).await {
        Ok(Ok(answers)) => Value::Array(answers).extract_error().map_err(Failure::Server),
        Ok(Err(error)) => Err(Failure::Server(error)),
        Err(_) => Err(Failure::Other(fault::timed_out(within))),
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::{Config, Runtime};

    use super::super::fake::{self, READ_ONLY};
    use super::*;

    /// The next one may lead to another server, as where a name leads to the new primary.
    #[tokio::test]
    async fn a_connection_to_a_server_that_only_reads_does_not_go_back() {
        let former = |words: &[&str]| matches!(words, ["SET", ..]).then(|| READ_ONLY.into());
        let port = fake::start_behind(former, |words| match words {
            ["PING", said] => Some(fake::text(said)),
            _ => Some("+OK\r\n".into()),
        });
        let config = Config::from_url(format!("redis://127.0.0.1:{port}"));
        let pool = RedisPool::from(config.create_pool(Some(Runtime::Tokio1)).unwrap());
        let mut command = redis::cmd("SET");
        command.arg("k").arg("v");
        let send = || pool.send(Request { command: &command, replicas: None });
        assert!(send().await.is_err());
        let answer = send().await;
        assert!(answer.is_ok(), "{answer:?}");
    }
}
