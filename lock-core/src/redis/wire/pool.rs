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

/// Sends a request. A connection to a server that only reads is taken from the pool, which would give
/// it out again for good: a replica answers a ping.
macro_rules! send {
    ($pool:expr, $connection:path, $request:expr) => {{
        let connection = connection!($pool);
        let answer = $request.send(&mut patient(&connection), request::REQUEST_WITHIN).await;
        let sent = from_here((*connection).clone());
        if answer.as_ref().is_err_and(is_read_only) {
            drop(<$connection>::take(connection));
        }
        answer.map_err(|fault| Unserved { fault, sent: Some(sent) })
    }};
}

impl RedisPool {
    pub(in crate::redis) fn is_of_cluster(&self) -> bool {
        matches!(self.0, Kind::Cluster(_))
    }

    /// Sends one request over a connection of the pool, which nobody else uses meanwhile.
    pub(in crate::redis) async fn send(&self, request: Request<'_>) -> Result<Value, Unserved> {
        match &self.0 {
            Kind::Server(pool) => send!(pool, deadpool_redis::Connection, request),
            Kind::Sentinel(pool) => send!(pool, deadpool_redis::sentinel::Connection, request),
            Kind::Cluster(_) if request.replicas.is_some() => {
                let what = "a grant through a pool of a cluster cannot wait for replicas";
                Err(unsent(Fault::new(FaultKind::Refused, what)))
            }
            Kind::Cluster(pool) => {
                let mut connection = connection!(pool);
                let answer = request.send(&mut *connection, request::REQUEST_WITHIN).await;
                // It stands for the connections to all nodes, and tells of none.
                answer.map_err(|fault| Unserved { fault, sent: None })
            }
        }
    }
}

/// Sends a request, and takes the connection from the pool if it leads to another server than
/// `master`, or to one that is none.
macro_rules! send_to {
    ($pool:expr, $connection:path, $request:expr, $master:expr, $superseded:expr) => {{
        let mut connection = connection!($pool);
        let (answer, leads_there) = tokio::select! {
            biased;
            () = $superseded => (Err(Failure::Other(fault::superseded())), true),
            answer = over(&mut connection, $request, $master) => answer,
        };
        let sent = from_here((*connection).clone());
        if !leads_there || answer.as_ref().is_err_and(is_read_only) {
            drop(<$connection>::take(connection));
        }
        let answer = match leads_there {
            true => answer,
            false => Err(Failure::Other(request::elsewhere())),
        };
        answer.map_err(|fault| WrongServer {
            unserved: Unserved { fault, sent: Some(sent) },
            is_elsewhere: !leads_there,
        })
    }};
}

impl RedisPool {
    /// Sends one request, which only counts if the server named `master` answers before
    /// `superseded`.
    pub(in crate::redis) async fn send_to(
        &self,
        request: Request<'_>,
        master: &str,
        superseded: impl Future<Output = ()>,
    ) -> Result<Value, WrongServer> {
        match &self.0 {
            Kind::Server(pool) => {
                send_to!(pool, deadpool_redis::Connection, request, master, superseded)
            }
            Kind::Sentinel(pool) => {
                send_to!(pool, deadpool_redis::sentinel::Connection, request, master, superseded)
            }
            Kind::Cluster(_) => {
                let what = "the pool is of a cluster, and the URL of sentinels";
                Err(unsent(Fault::new(FaultKind::Refused, what)).into())
            }
        }
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

/// Sends a request and asks who answers; also whether that is `master`, as far as it said.
async fn over(
    connection: &mut MultiplexedConnection,
    request: Request<'_>,
    master: &str,
) -> (Result<Value, Failure>, bool) {
    let mut connection = patient(connection);
    let until = clock::now().plus(request::REQUEST_WITHIN);
    let mut pipeline = redis::pipe();
    pipeline.add_command(request.command.clone()).add_command(request::who());
    let answers = send_all(&mut connection, &pipeline, 2, request::REQUEST_WITHIN).await;
    let (answer, who) = match answers.map(pair) {
        Ok(Some(answers)) => answers,
        Ok(None) => return (Err(Failure::Other(fault::strange("a pipeline"))), true),
        Err(failure) => return (Err(failure), true),
    };
    if request::run_id(who).as_deref() != Some(master) {
        return (Ok(answer), false);
    }
    (request.replicated(answer, &mut connection, until).await, true)
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

/// Whether the server is a replica.
fn is_read_only(failure: &Failure) -> bool {
    matches!(failure, Failure::Server(error) if fault::is_read_only(error))
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
    use std::sync::{Arc, OnceLock};
    use std::thread::{self, ThreadId};

    use deadpool_redis::{Config, Runtime};

    use super::super::fake;
    use super::*;

    /// The next one may lead to another server, as where a name leads to the new primary.
    #[tokio::test]
    async fn a_connection_to_a_server_that_only_reads_does_not_go_back() {
        let former = Arc::<OnceLock<ThreadId>>::default();
        let port = fake::start(move |words| {
            // Each connection has a thread, and the first leads to the former primary.
            let here = thread::current().id();
            match words {
                ["SET", ..] if *former.get_or_init(|| here) == here => {
                    Some("-READONLY You can't write against a read only replica.\r\n".into())
                }
                ["PING", said] => Some(format!("${}\r\n{said}\r\n", said.len())),
                _ => Some("+OK\r\n".into()),
            }
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
