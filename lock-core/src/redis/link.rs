//! A connection that comes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushKind, RedisError, Value};

use super::fault;
use super::inbox::Inboxes;
use crate::backend::Fault;
use crate::engine::clock;
use crate::proto::FAULT_PAUSES;

/// How long one request, or one connect, may take.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// Requests that may wait to be written.
const BUFFERED_MAX: usize = 1_024;

/// See the module. With a channel, the link is subscribed to it before anything is sent, and
/// comes back by itself, so that pushes are missed as short as can be.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    push: Option<Push>,
    current: Mutex<Option<Numbered>>,
    /// Held while connecting; the last failure and its time.
    connecting: tokio::sync::Mutex<Option<(Instant, Fault)>>,
    connects: AtomicU64,
}

#[derive(Debug)]
struct Push {
    channel: Option<String>,
    inboxes: Arc<Inboxes>,
    /// This link, for the task that brings it back.
    this: Weak<Link>,
}

/// A connection, and which one it is.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) connection: MultiplexedConnection,
    number: u64,
}

/// Waiters for one connect share its failure for this long.
const FAILURE_SHARED: Duration = Duration::from_millis(10);

impl Link {
    /// A link for requests only.
    pub(super) fn plain(client: Client) -> Arc<Self> {
        Arc::new(Self::new(client, None))
    }

    /// A link that listens to `channel` as well.
    pub(super) fn listening(client: Client, channel: String, inboxes: Arc<Inboxes>) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let channel = Some(channel);
            Self::new(client, Some(Push { channel, inboxes, this: this.clone() }))
        })
    }

    /// A link for requests only that comes back by itself.
    pub(super) fn standing(client: Client) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let push = Push { channel: None, inboxes: Arc::default(), this: this.clone() };
            Self::new(client, Some(push))
        })
    }

    fn new(client: Client, push: Option<Push>) -> Self {
        Self {
            client,
            push,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(None),
            connects: AtomicU64::new(0),
        }
    }

    fn current(&self) -> Option<Numbered> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection, made anew if there is none.
    pub(super) async fn get(&self) -> Result<Numbered, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let asked = clock::now();
        let mut failed = self.connecting.lock().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        if let Some((at, fault)) = &*failed
            && asked < *at + FAILURE_SHARED
        {
            return Err(fault.clone());
        }
        let connecting = tokio::time::timeout(REQUEST_WITHIN, self.connect());
        let connection = match connecting.await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                let fault = fault::fault(error);
                *failed = Some((clock::now(), fault.clone()));
                return Err(fault);
            }
            Err(_) => {
                let fault = fault::timed_out(REQUEST_WITHIN);
                *failed = Some((clock::now(), fault.clone()));
                return Err(fault);
            }
        };
        *failed = None;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(current.insert(connection).clone())
    }

    async fn connect(&self) -> Result<Numbered, RedisError> {
        let number = self.connects.fetch_add(1, Ordering::Relaxed);
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(REQUEST_WITHIN))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BUFFERED_MAX);
        if let Some(push) = &self.push {
            let (inboxes, this) = (push.inboxes.clone(), push.this.clone());
            config = config.set_push_sender(move |info: redis::PushInfo| {
                if info.kind == PushKind::Disconnection {
                    if let Some(this) = this.upgrade() {
                        this.broken(number);
                        come_back(&this);
                    }
                } else {
                    inboxes.deliver(&info);
                }
                Ok::<(), std::convert::Infallible>(())
            });
        }
        let mut connection =
            self.client.get_multiplexed_async_connection_with_config(&config).await?;
        if let Some(channel) = self.push.as_ref().and_then(|push| push.channel.as_ref()) {
            connection.subscribe(channel).await?;
        }
        Ok(Numbered { connection, number })
    }

    /// This connection is of no use any more.
    pub(super) fn broken(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.number == number) {
            *current = None;
        }
    }

    /// The connection, if it can be had in time. One that takes longer to make goes on being made,
    /// for the next who asks: over a slow link it would never come to be otherwise.
    async fn get_within(self: &Arc<Self>, within: Duration) -> Result<Numbered, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let this = self.clone();
        let connecting = tokio::spawn(async move { this.get().await });
        match tokio::time::timeout(within, connecting).await {
            Ok(Ok(got)) => got,
            // In time, and without an answer: the runtime is ending.
            Ok(Err(_)) | Err(_) => Err(fault::timed_out(within)),
        }
    }

    /// Sends one command. `within` bounds the answer, and before it the making of a connection;
    /// [`REQUEST_WITHIN`] bounds both together. On a fault whose effect is not known, the
    /// connection is told too, as only there can a later command be sure to come after this one.
    pub(super) async fn call(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, Unserved> {
        let (Numbered { mut connection, number }, within) = self.ready(within).await?;
        let answer = send(&mut connection, command, within).await;
        answer.map_err(|failure| self.unserved(failure, number, connection))
    }

    /// Sends several commands, one right behind the other, as [`call`](Self::call) does one. Each
    /// has an answer of its own, which may be an error.
    pub(super) async fn call_all(
        self: &Arc<Self>,
        commands: &redis::Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Unserved> {
        let (Numbered { mut connection, number }, within) = self.ready(within).await?;
        let answers = send_all(&mut connection, commands, within).await;
        answers.map_err(|failure| self.unserved(failure, number, connection))
    }

    /// The connection, and how long an answer may take.
    async fn ready(self: &Arc<Self>, within: Duration) -> Result<(Numbered, Duration), Unserved> {
        let unsent = |fault| Unserved { fault: Failure::Other(fault), sent: None };
        let until = clock::now() + REQUEST_WITHIN;
        let connection = self.get_within(within).await.map_err(unsent)?;
        let left = until.saturating_duration_since(clock::now());
        Ok((connection, within.min(left)))
    }

    fn unserved(
        &self,
        failure: Failure,
        number: u64,
        connection: MultiplexedConnection,
    ) -> Unserved {
        if failure.is_lasting() {
            self.broken(number);
            if let Some(this) = self.push.as_ref().and_then(|push| push.this.upgrade()) {
                come_back(&this);
            }
        }
        Unserved { fault: failure, sent: Some(connection) }
    }
}

/// A command that was not served.
#[derive(Debug)]
pub(super) struct Unserved {
    pub(super) fault: Failure,
    /// Where it was sent.
    pub(super) sent: Option<MultiplexedConnection>,
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

    /// Whether the connection is of no use any more.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Server(error) => error.is_unrecoverable_error(),
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

/// Sends one command over one connection, within the time that a request has.
pub(super) async fn send(
    connection: &mut impl redis::aio::ConnectionLike,
    command: &Cmd,
    within: Duration,
) -> Result<Value, Failure> {
    let answer = tokio::time::timeout(within, connection.req_packed_command(command));
    match answer.await {
        Ok(Ok(value)) => value.extract_error().map_err(Failure::Server),
        Ok(Err(error)) => Err(Failure::Server(error)),
        Err(_) => Err(Failure::Other(fault::timed_out(within))),
    }
}

/// Sends several commands over one connection, within the time that a request has.
pub(super) async fn send_all(
    connection: &mut impl redis::aio::ConnectionLike,
    commands: &redis::Pipeline,
    within: Duration,
) -> Result<Vec<Value>, Failure> {
    let count = commands.len();
    let answer = tokio::time::timeout(within, connection.req_packed_commands(commands, 0, count));
    match answer.await {
        Ok(Ok(values)) if values.len() == count => Ok(values),
        Ok(Ok(_)) => Err(Failure::Other(fault::strange("several commands"))),
        Ok(Err(error)) => Err(Failure::Server(error)),
        Err(_) => Err(Failure::Other(fault::timed_out(within))),
    }
}

/// Brings a link back, with growing pauses, for as long as somebody has it.
fn come_back(link: &Arc<Link>) {
    let this = Arc::downgrade(link);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    drop(runtime.spawn(async move {
        for failures in 1.. {
            let Some(link) = this.upgrade() else { return };
            if link.get().await.is_ok() {
                return;
            }
            drop(link);
            tokio::time::sleep(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
        }
    }));
}
