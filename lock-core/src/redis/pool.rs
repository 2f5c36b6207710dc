//! Commands through an application's own pool.

use std::fmt;

use deadpool_redis::PoolError;
use redis::Value;

use super::fault;
use super::link::{self, Failure, Request, Unserved};
use crate::backend::{Fault, FaultKind};

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
        match tokio::time::timeout(link::REQUEST_WITHIN, $pool.get()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(unsent(refused(error))),
            Err(_) => return Err(unsent(exhausted())),
        }
    };
}

impl RedisPool {
    pub(super) fn is_of_cluster(&self) -> bool {
        matches!(self.0, Kind::Cluster(_))
    }

    /// Sends one request over a connection of the pool, which nobody else uses meanwhile.
    pub(super) async fn send(&self, request: Request<'_>) -> Result<Value, Unserved> {
        let within = link::REQUEST_WITHIN;
        match &self.0 {
            Kind::Server(pool) => {
                let mut connection = connection!(pool);
                let answer = request.send(&mut *connection, within).await;
                answer.map_err(|fault| Unserved { fault, sent: Some((*connection).clone()) })
            }
            Kind::Sentinel(pool) => {
                let mut connection = connection!(pool);
                let answer = request.send(&mut *connection, within).await;
                answer.map_err(|fault| Unserved { fault, sent: Some((*connection).clone()) })
            }
            Kind::Cluster(_) if request.replicas.is_some() => {
                let what = "a grant through a pool of a cluster cannot wait for replicas";
                Err(unsent(Fault::new(FaultKind::Refused, what)))
            }
            Kind::Cluster(pool) => {
                let mut connection = connection!(pool);
                let answer = request.send(&mut *connection, within).await;
                // It stands for the connections to all nodes, and tells of none.
                answer.map_err(|fault| Unserved { fault, sent: None })
            }
        }
    }
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
    Unserved { fault: Failure::Other(fault), sent: None }
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
