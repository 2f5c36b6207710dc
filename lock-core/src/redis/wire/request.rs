//! A request over one connection, and what comes of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue as _, RedisError, Value};
use tokio::runtime::Handle;

use super::fault;
use crate::backend::Replicas;
use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock, timeout};
use crate::redis::protocol::script::Script;

/// The time that one request, or one connect, may take.
pub(in crate::redis) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// The most bytes that one number and its separators take in a request.
pub(super) const NUMBER_BYTES: usize = 20;

/// A waiter that has not asked for so long counts as gone.
const DUE: Duration = Duration::from_millis(1_500);

/// Whether those who were in line at the time when a server became that of their keys, or came back,
/// may still be on their way to it.
pub(in crate::redis) fn is_fresh(since: Instant) -> bool {
    clock::now() < since.plus(DUE)
}

/// A script, with what it is called, and where its keys are in a cluster.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Call {
    pub(in crate::redis) script: &'static Script,
    /// The command that calls the script by its hash.
    pub(in crate::redis) command: Cmd,
    pub(in crate::redis) slot: u16,
}

impl Call {
    /// The same by the patient form of the script, where those in line `may_be_on_their_way` to the
    /// server that is asked: no push reaches them there yet.
    pub(in crate::redis) fn fitting(&self, may_be_on_their_way: bool) -> Cow<'_, Self> {
        let patient = if may_be_on_their_way { self.script.patient() } else { None };
        patient.map_or(Cow::Borrowed(self), |script| {
            let command = script.evalsha_as(&self.command);
            Cow::Owned(Self { script, command, slot: self.slot })
        })
    }

    /// The same with the source of the script, if the server answered that it does not know the
    /// hash. It does from then on.
    pub(in crate::redis) fn in_full<T>(&self, answer: &Result<T, Unserved>) -> Option<Cmd> {
        let no_script = redis::ErrorKind::Server(redis::ServerErrorKind::NoScript);
        match answer {
            Err(Unserved { fault: Failure::Server(error), .. }) if error.kind() == no_script => {
                Some(self.script.eval(&self.command))
            }
            _ => None,
        }
    }
}

/// A request over one connection.
#[derive(Debug, Clone, Copy)]
pub(in crate::redis) struct Request<'a> {
    pub(in crate::redis) command: &'a Cmd,
    /// A `WAIT` follows if the answer is a grant; then both answers are in an array. A claim that
    /// is blocked has nothing to wait for, and would keep the connection from those that have.
    pub(in crate::redis) replicas: Option<Replicas>,
}

/// The time before the end of a request by which the server is to have answered its `WAIT`.
const WAIT_MARGIN: Duration = Duration::from_millis(100);

impl Request<'_> {
    pub(in crate::redis) async fn send(
        self,
        connection: &mut impl redis::aio::ConnectionLike,
        within: Duration,
    ) -> Result<Value, Failure> {
        if self.replicas.is_none() {
            return send(connection, self.command, within).await;
        }
        let until = clock::now().plus(within);
        let answer = send(connection, self.command, within).await?;
        Box::pin(self.replicated(answer, connection, until)).await
    }

    /// The answer to the command, and if it is a grant, how many replicas have it by `until`. The
    /// connection is that of the command, and nobody else's.
    pub(in crate::redis) async fn replicated(
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
pub(in crate::redis) async fn send_each(
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

/// The answer to one command. An error inside of an array is that of one claim of several, and is
/// found where the answer to that claim is read.
pub(in crate::redis) fn served(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::ServerError(error) => Err(Failure::Server(error.into())),
        answer => Ok(answer),
    }
}

/// An error among the answers of a batch, or in one of them, after which its connection is of no use.
pub(super) fn lasting(answers: &[Value]) -> Option<Failure> {
    answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => {
            Some(Failure::Server(error.clone().into())).filter(Failure::is_lasting)
        }
        Value::Array(answers) => lasting(answers),
        _ => None,
    })
}

/// Sends one command over one connection, within the time that a request has.
pub(in crate::redis) async fn send(
    connection: &mut impl redis::aio::ConnectionLike,
    command: &Cmd,
    within: Duration,
) -> Result<Value, Failure> {
    answered(timeout::within(within, connection.req_packed_command(command)).await, within)
}

/// The outcome of a command that had so much time.
pub(in crate::redis) fn answered(
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
pub(in crate::redis) struct Unserved {
    pub(in crate::redis) fault: Failure,
    /// The connection over which it was sent.
    pub(in crate::redis) sent: Option<Arc<Sent>>,
}

/// A connection over which something was sent whose effect is not known.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Sent {
    pub(in crate::redis) connection: MultiplexedConnection,
    /// The runtime that serves the connection. A request that has to go behind the doubtful one is
    /// sent from there. While that runtime is blocked, a request that another sends is not written,
    /// and it never is once the other has given it up.
    pub(in crate::redis) runtime: Handle,
}

impl Unserved {
    /// Whether it was not sent, as the server has to be looked at first.
    pub(in crate::redis) fn is_unready(&self) -> bool {
        matches!(&self.fault, Failure::Other(fault) if fault.kind() == FaultKind::Unready)
    }
}

/// The reason why a request was not served.
#[derive(Debug, Clone)]
pub(in crate::redis) enum Failure {
    Server(RedisError),
    Other(Fault),
}

impl Failure {
    /// Whether some of the keys are at another node of a cluster for now.
    pub(in crate::redis) fn is_try_again(&self) -> bool {
        let kind = redis::ErrorKind::Server(redis::ServerErrorKind::TryAgain);
        matches!(self, Self::Server(error) if error.kind() == kind)
    }

    /// Whether the connection is of no use any more. A server that only reads was a master once, or
    /// is none yet. The server at its address may be another by now.
    pub(in crate::redis) fn is_lasting(&self) -> bool {
        match self {
            Self::Server(error) => error.is_unrecoverable_error() || fault::is_read_only(error),
            Self::Other(_) => true,
        }
    }

    pub(in crate::redis) fn into_fault(self) -> Fault {
        match self {
            Self::Server(error) if fault::is_unserved(&error) => fault::fault(error).unsent(),
            Self::Server(error) => fault::fault(error),
            Self::Other(fault) => fault,
        }
    }
}

/// A request through an application's pool that was not served by the master.
#[derive(Debug)]
pub(in crate::redis) struct WrongServer {
    pub(in crate::redis) unserved: Unserved,
    /// The connection of our own over which it may be made instead, by its number. Another may lead
    /// to where it has run.
    pub(in crate::redis) again: Option<u64>,
}

impl WrongServer {
    /// There is no pool.
    pub(in crate::redis) fn nowhere() -> Self {
        Failure::Other(elsewhere().unsent()).into()
    }
}

pub(in crate::redis) fn elsewhere() -> Fault {
    let what = "the application's pool led to a server that is not the master any more";
    Fault::new(FaultKind::Transient, what)
}

impl From<Unserved> for WrongServer {
    fn from(unserved: Unserved) -> Self {
        Self { unserved, again: None }
    }
}

impl From<Failure> for WrongServer {
    fn from(fault: Failure) -> Self {
        Unserved { fault, sent: None }.into()
    }
}

/// Asks a server who it is.
pub(in crate::redis) fn who() -> Cmd {
    let mut command = Cmd::new();
    command.arg("INFO").arg("server");
    command
}

/// The name that a server drew when it started.
pub(in crate::redis) fn run_id(info: Value) -> Option<String> {
    let info = String::from_redis_value(info).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?;
    Some(id.trim().to_owned())
}
