//! What is sent over one connection, and what comes of it.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use tokio::runtime::Handle;

use super::fault;
use crate::backend::{Fault, FaultKind};
use crate::engine::{clock, timeout};
use crate::options::Replicas;

/// How long one request, or one connect, may take.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// What is sent over one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) command: &'a Cmd,
    /// A `WAIT` behind it if it is answered with a grant: who is blocked has nothing to wait for,
    /// and would keep the connection from those who have. Both answers are in an array then.
    pub(super) replicas: Option<Replicas>,
}

/// How long before the end of a request the server is to have answered its `WAIT`.
const WAIT_MARGIN: Duration = Duration::from_millis(100);

impl Request<'_> {
    pub(super) async fn send(
        self,
        connection: &mut impl redis::aio::ConnectionLike,
        within: Duration,
    ) -> Result<Value, Failure> {
        if self.replicas.is_none() {
            return send(connection, self.command, within).await;
        }
        let until = clock::now() + within;
        let answer = send(connection, self.command, within).await?;
        Box::pin(self.replicated(answer, connection, until)).await
    }

    /// The answer to the command, and if it is a grant, how many replicas have it by `until`. The
    /// connection is that of the command, and nobody else's.
    pub(super) async fn replicated(
        self,
        answer: Value,
        connection: &mut impl redis::aio::ConnectionLike,
        until: Instant,
    ) -> Result<Value, Failure> {
        let Some(Replicas { count, timeout }) = self.replicas else { return Ok(answer) };
        if !is_grant(&answer) {
            return Ok(Value::Array(vec![answer, Value::Int(0)]));
        }
        let left = until.saturating_duration_since(clock::now());
        let timeout = timeout.min(left.saturating_sub(WAIT_MARGIN));
        let mut wait = Cmd::new();
        // Not 0, which is for ever.
        wait.arg("WAIT").arg(count).arg(timeout.as_millis().max(1) as u64);
        let acknowledged = send(connection, &wait, left).await?;
        Ok(Value::Array(vec![answer, acknowledged]))
    }
}

/// Whether an attempt was granted.
fn is_grant(answer: &Value) -> bool {
    match answer {
        Value::Int(first) => *first > 0,
        Value::Array(parts) => matches!(parts.first(), Some(Value::Int(1))),
        _ => false,
    }
}

/// Sends several commands in one write. Each has an answer of its own, which may be an error.
pub(super) async fn send_each(
    connection: &mut impl redis::aio::ConnectionLike,
    commands: &redis::Pipeline,
    within: Duration,
) -> Result<Vec<Value>, Failure> {
    let count = commands.len();
    let answers = connection.req_packed_commands(commands, 0, count);
    match timeout::within(within, answers).await {
        Ok(Ok(answers)) if answers.len() == count => Ok(answers),
        Ok(Ok(_)) => Err(Failure::Other(fault::strange("several commands"))),
        Ok(Err(error)) => Err(Failure::Server(error)),
        Err(_) => Err(Failure::Other(fault::timed_out(within))),
    }
}

/// Sends several commands in one write; all answers in an array, unless one is an error.
#[cfg(feature = "deadpool")]
pub(super) async fn send_all(
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

/// The answer to one command. Of our scripts none answers with an error inside of an array, so the
/// answers of a batch are not searched for one.
pub(super) fn served(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::ServerError(error) => Err(Failure::Server(error.into())),
        answer => Ok(answer),
    }
}

/// Sends one command over one connection, within the time that a request has.
pub(super) async fn send(
    connection: &mut impl redis::aio::ConnectionLike,
    command: &Cmd,
    within: Duration,
) -> Result<Value, Failure> {
    answered(timeout::within(within, connection.req_packed_command(command)).await, within)
}

/// What came of a command that had so much time.
pub(super) fn answered(
    answer: Result<Result<Value, RedisError>, timeout::Late>,
    within: Duration,
) -> Result<Value, Failure> {
    match answer {
        Ok(Ok(answer)) => served(answer),
        Ok(Err(error)) => Err(Failure::Server(error)),
        Err(_) => Err(Failure::Other(fault::timed_out(within))),
    }
}

/// A command that was not served.
#[derive(Debug, Clone)]
pub(super) struct Unserved {
    pub(super) fault: Failure,
    /// Where it was sent.
    pub(super) sent: Option<Sent>,
}

/// A connection over which something was sent whose effect is not known.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) connection: MultiplexedConnection,
    /// Where it is served. What is sent behind that is sent from there: while that runtime is
    /// blocked, what another sends is not written, and not any more once that has given it up.
    pub(super) runtime: Handle,
}

impl Sent {
    /// Over a connection of a pool, which does not tell whose it is.
    #[cfg(feature = "deadpool")]
    pub(super) fn from_here(connection: MultiplexedConnection) -> Self {
        Self { connection, runtime: Handle::current() }
    }
}

impl Unserved {
    /// Whether it was not sent, as the server has to be looked at first.
    pub(super) fn is_unready(&self) -> bool {
        matches!(&self.fault, Failure::Other(fault) if fault.kind() == FaultKind::Unready)
    }
}

/// Why.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Server(RedisError),
    Other(Fault),
}

impl Failure {
    pub(super) fn is_no_script(&self) -> bool {
        let kind = redis::ErrorKind::Server(redis::ServerErrorKind::NoScript);
        matches!(self, Self::Server(error) if error.kind() == kind)
    }

    /// Whether some of the keys are at another node of a cluster for now.
    pub(super) fn is_try_again(&self) -> bool {
        let kind = redis::ErrorKind::Server(redis::ServerErrorKind::TryAgain);
        matches!(self, Self::Server(error) if error.kind() == kind)
    }

    /// Whether the server is a replica.
    #[cfg(feature = "deadpool")]
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Server(error) if fault::is_read_only(error))
    }

    /// Whether the connection is of no use any more. A server that only reads was a master once,
    /// or is none yet: what was connected to may be another by now.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Server(error) => error.is_unrecoverable_error() || fault::is_read_only(error),
            Self::Other(_) => true,
        }
    }

    pub(super) fn into_fault(self) -> Fault {
        match self {
            Self::Server(error) => fault::fault(error),
            Self::Other(fault) => fault,
        }
    }
}
