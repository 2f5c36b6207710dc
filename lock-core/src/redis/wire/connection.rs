//! A connection that comes back.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, PushKind, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::RECONNECT_PAUSES;
use super::request::{self, Failure, REQUEST_WITHIN, Request, Sent, Unserved, send_each};
use super::route::Route;
use super::session::Session;
use super::{fault, hello, refusal};
use crate::backend::Fault;
use crate::backend::Replicas;
use crate::backend::io::Home;
use crate::ground::{FAULT_PAUSES, Plus as _, clock, lock, timeout};
use crate::redis::protocol::names::CLOCK;

/// Requests that may wait to be written.
const BUFFERED_MAX: usize = 1_024;

/// A connection to whatever server its route leads to, made anew when it is asked for and is gone.
///
/// It is made and served at the home of its route, so nothing that an application does to its
/// runtimes holds it up. Requests are sent from wherever they are asked for.
#[derive(Debug)]
pub(in crate::redis) struct Connection {
    route: Arc<dyn Route>,
    push: Option<Push>,
    /// Whether a task brings it back.
    comes_back: AtomicBool,
    latest: Mutex<Latest>,
    /// Held while connecting; the last failure and its time.
    connecting: tokio::sync::Mutex<Option<(Instant, Fault)>>,
    connects: AtomicU64,
    /// Poked when there is a connection.
    opened: Notify,
}

/// The part of a connection that is about pushes.
#[derive(Debug)]
struct Push {
    role: Role,
    session: Arc<Session>,
    /// This connection, for whoever brings it back.
    this: Weak<Connection>,
}

#[derive(Debug)]
enum Role {
    /// It is subscribed to this channel, and to those at which claims wait, before anything is sent.
    /// It comes back by itself.
    Listens(String),
    /// It comes back by itself.
    Stands,
    /// The server tells over it which keys that a renewal has read were written by others, if it
    /// agreed to.
    Tracks(AtomicBool),
}

impl Push {
    /// The name in the server's list of clients. Renewals go beside a connection that has it.
    fn name(&self) -> Option<&str> {
        match self.role {
            Role::Tracks(_) => None,
            Role::Listens(_) | Role::Stands => self.session.name(),
        }
    }
}

/// The connection of now, and what is known of those before it.
///
/// A connection is noted once all that it begins with was answered. Its end is told by another
/// task, which may come first: so the end is kept, and what has ended is not noted.
#[derive(Debug, Default)]
struct Latest {
    current: Option<Current>,
    /// The greatest number of a connection whose end was told.
    ended: Option<u64>,
}

impl Latest {
    /// The connection is the current one from now on, unless it has ended already.
    fn note(&mut self, made: Current) -> Result<(), Fault> {
        if self.ended >= Some(made.number) {
            return Err(fault::cut_at_once());
        }
        self.current = Some(made);
        Ok(())
    }

    fn end(&mut self, number: u64) {
        self.ended = self.ended.max(Some(number));
        self.current.take_if(|current| current.number == number);
    }
}

/// A connection, and which one it is.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Current {
    pub(in crate::redis) connection: MultiplexedConnection,
    /// The runtime that serves it.
    runtime: Handle,
    number: u64,
    opened: Instant,
    /// The term that it was made in: when that is over, what it still answers does not count.
    term: u64,
}

impl Current {
    /// Whether it has taken the place of another a moment ago. That may have ended for others too.
    pub(in crate::redis) fn is_back(&self) -> bool {
        self.number > 0 && request::is_fresh(self.opened)
    }

    /// The connection as that over which something was sent.
    pub(in crate::redis) fn sent(&self) -> Arc<Sent> {
        let (connection, runtime) = (self.connection.clone(), self.runtime.clone());
        Sent { connection, runtime }.into()
    }
}

/// The most holds that are tracked; with more, none is. Tracking costs the server as much again as
/// renewing them.
const TRACKED_MAX: usize = 10_000;

/// The pause between two tries to reach a server that another may succeed.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Waiters for one connect share its failure for this long.
const FAILURE_SHARED: Duration = Duration::from_millis(10);

impl Connection {
    /// A connection for requests only.
    pub(in crate::redis) fn plain(route: Arc<dyn Route>) -> Arc<Self> {
        Arc::new(Self::new(route, None))
    }

    /// A connection that listens as well, to `channel` always and to what claims of its session wait
    /// for. It has the name of its session.
    pub(in crate::redis) fn listening(
        route: Arc<dyn Route>,
        session: Arc<Session>,
        channel: String,
    ) -> Arc<Self> {
        Self::pushed(route, session, Role::Listens(channel))
    }

    /// A connection for requests only that comes back by itself, and has the name of its session.
    pub(in crate::redis) fn standing(route: Arc<dyn Route>, session: Arc<Session>) -> Arc<Self> {
        Self::pushed(route, session, Role::Stands)
    }

    /// A connection for renewals: a claim whose key was deleted or overwritten asks at once.
    pub(in crate::redis) fn tracking(route: Arc<dyn Route>, session: Arc<Session>) -> Arc<Self> {
        Self::pushed(route, session, Role::Tracks(AtomicBool::new(false)))
    }

    fn pushed(route: Arc<dyn Route>, session: Arc<Session>, role: Role) -> Arc<Self> {
        Arc::new_cyclic(|this| Self::new(route, Some(Push { role, session, this: this.clone() })))
    }

    /// Whether the server is to tell when others write what is read over this connection.
    pub(in crate::redis) fn tracks(&self) -> bool {
        self.push.as_ref().is_some_and(|push| match &push.role {
            Role::Tracks(agreed) => {
                agreed.load(Ordering::Relaxed) && push.session.inboxes.renewed_here() < TRACKED_MAX
            }
            Role::Listens(_) | Role::Stands => false,
        })
    }

    /// This connection, if it comes back by itself.
    fn standing_here(&self) -> Option<Arc<Self>> {
        let push = self.push.as_ref().filter(|push| !matches!(push.role, Role::Tracks(_)))?;
        push.this.upgrade()
    }

    fn new(route: Arc<dyn Route>, push: Option<Push>) -> Self {
        Self {
            route,
            push,
            comes_back: AtomicBool::new(false),
            latest: Mutex::default(),
            connecting: tokio::sync::Mutex::new(None),
            connects: AtomicU64::new(0),
            opened: Notify::new(),
        }
    }

    fn current(&self) -> Option<Current> {
        let current = lock(&self.latest).current.clone();
        current.filter(|current| self.route.is_current(current.term))
    }

    /// The home where it is made and served.
    pub(in crate::redis) fn home(&self) -> &Arc<Home> {
        self.route.home()
    }

    /// The connection, made anew if there is none. At home only.
    async fn made(&self) -> Result<Current, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let asked = clock::now();
        let mut failed = self.connecting.lock().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        if let Some((at, fault)) = &*failed
            && asked < at.plus(FAILURE_SHARED)
        {
            return Err(fault.clone());
        }
        let deadline = clock::now().plus(REQUEST_WITHIN);
        let connecting = timeout::by(deadline, self.reach(deadline));
        let made = connecting.await.unwrap_or_else(|_| Err(fault::timed_out(REQUEST_WITHIN)));
        let noted = made.and_then(|made: Current| {
            lock(&self.latest).note(made.clone())?;
            Ok(made)
        });
        *failed = noted.as_ref().err().map(|fault| (clock::now(), fault.clone()));
        // The mutex goes first, as whoever is woken may do anything.
        drop(failed);
        let connection = noted?;
        self.opened.notify_waiters();
        if let Some(Push { role: Role::Listens(_), session, .. }) = &self.push {
            session.channels.opened(connection.number);
            if connection.number > 0 {
                // The server may have been started anew, without its data: all ask.
                session.inboxes.is_back();
            }
        }
        Ok(connection)
    }

    /// Opens a connection. While the server that is to be asked now can't be reached, it is tried
    /// again until `deadline`, if another may take its place.
    async fn reach(&self, deadline: Instant) -> Result<Current, Fault> {
        loop {
            let (client, term) = self.route.server().await?;
            let Some(superseded) = self.route.superseded(term) else {
                return self.open(client, term).await;
            };
            let opened = tokio::select! {
                biased;
                () = superseded => Err(fault::superseded()),
                opened = self.open(client, term) => opened,
            };
            match opened {
                Err(fault) if fault.is_transient() => {
                    self.route.look();
                    if clock::now().plus(RETRY_PAUSE) >= deadline {
                        return Err(fault);
                    }
                }
                opened => return opened,
            }
            if let Some(switched) = self.route.superseded(term) {
                let _late = timeout::within(RETRY_PAUSE, switched).await;
            }
        }
    }

    async fn open(&self, client: Client, term: u64) -> Result<Current, Fault> {
        let number = self.connects.fetch_add(1, Ordering::Relaxed);
        let runtime = Handle::current();
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(REQUEST_WITHIN))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BUFFERED_MAX);
        if let Some(push) = &self.push {
            let (session, this) = (push.session.clone(), push.this.clone());
            let route = self.route.clone();
            config = config.set_push_sender(move |info: redis::PushInfo| {
                match info.kind {
                    PushKind::Disconnection => {
                        if let Some(this) = this.upgrade() {
                            this.broken(number);
                            this.standing_here().iter().for_each(come_back);
                        }
                    }
                    PushKind::Invalidate => session.inboxes.written_by_others(&info),
                    _ if route.is_current(term) => session.deliver_in(term, &info),
                    _ => {}
                }
                Ok::<(), std::convert::Infallible>(())
            });
        }
        let mut connection = refusal::connect(&client, &config).await.map_err(fault::fault)?;
        if !self.route.is_fixed() {
            hello::master(&mut connection).await?;
        }
        if let Some(name) = self.push.as_ref().and_then(Push::name) {
            hello::name(&mut connection, name).await?;
        }
        match self.push.as_ref().map(|push| (&push.role, &push.session.channels)) {
            Some((Role::Listens(own), channels)) => {
                if number > 0 {
                    // Before it counts as back: the claims are told of that once, and ask.
                    hello::serves(&mut connection, CLOCK).await?;
                }
                let wanted = channels.all(number);
                let names: Vec<_> = strs(&wanted).chain([&**own]).collect();
                connection.subscribe(names).await.map_err(fault::fault)?;
                channels.heard(&wanted, number);
            }
            Some((Role::Tracks(agreed), _)) => {
                agreed.store(hello::track(&mut connection).await?, Ordering::Relaxed);
            }
            Some((Role::Stands, _)) | None => {}
        }
        Ok(Current { connection, runtime, number, opened: clock::now(), term })
    }

    /// Tells the server to which of these channels to listen, and to which no more.
    pub(super) async fn tend(&self, names: &[Arc<str>]) {
        // Whoever makes the next connection asks for all that is wanted.
        let (Some(push), Some(mut current)) = (&self.push, self.current()) else { return };
        let (begin, end) = push.session.channels.due(names, current.number);
        let telling = async {
            if !begin.is_empty() {
                current.connection.subscribe(strs(&begin).collect::<Vec<_>>()).await?;
            }
            if !end.is_empty() {
                current.connection.unsubscribe(strs(&end).collect::<Vec<_>>()).await?;
            }
            Ok(())
        };
        let failure = match timeout::within(REQUEST_WITHIN, telling).await {
            Ok(Ok(())) => return push.session.channels.heard(&begin, current.number),
            Ok(Err(error)) => Failure::Server(error),
            Err(_) => Failure::Other(fault::timed_out(REQUEST_WITHIN)),
        };
        push.session.channels.unheard(&begin, current.number);
        self.failed(current.number, &failure);
        let fault = failure.into_fault();
        tracing::warn!(%fault, "not told of releases: who waits asks by the clock");
    }

    /// Whether the server was asked for a channel over the connection that there is.
    pub(in crate::redis) fn listens(&self, channel: &str) -> bool {
        let (Some(push), Some(number)) = (&self.push, self.number()) else { return false };
        push.session.channels.is_told(channel, number)
    }

    /// The number of the connection that there is.
    pub(super) fn number(&self) -> Option<u64> {
        self.current().map(|current| current.number)
    }

    /// Whether there is none in place of an earlier one, or has not been for long.
    pub(in crate::redis) fn is_back(&self) -> bool {
        let before = || self.connects.load(Ordering::Relaxed) > 0;
        self.current().map_or_else(before, |current| current.is_back())
    }

    /// Whether an answer or a push of this term counts still.
    pub(in crate::redis) fn is_current(&self, term: u64) -> bool {
        self.route.is_current(term)
    }

    /// Whether there is a connection; one that comes back by itself is called back if not.
    pub(in crate::redis) fn is_there(self: &Arc<Self>) -> bool {
        let is_there = self.current().is_some();
        if !is_there {
            come_back(self);
        }
        is_there
    }

    /// Waits until there is one, which another makes.
    pub(in crate::redis) async fn there(&self) {
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if self.current().is_some() {
                return;
            }
            opened.await;
        }
    }

    /// Drops what is open in a term that is over; one that comes back by itself comes back at once.
    pub(in crate::redis) fn follow(&self) {
        let mut latest = lock(&self.latest);
        if latest.current.as_ref().is_some_and(|current| self.route.is_current(current.term)) {
            return;
        }
        latest.current = None;
        drop(latest);
        self.standing_here().iter().for_each(come_back);
    }

    /// This connection is of no use any more.
    pub(in crate::redis) fn broken(&self, number: u64) {
        lock(&self.latest).end(number);
    }

    /// The connection, if it can be had in time, which is [`REQUEST_WITHIN`] at most. One that takes
    /// longer to make goes on being made, for the next who asks: over a slow network it would never
    /// come to be otherwise.
    pub(in crate::redis) async fn get(
        self: &Arc<Self>,
        within: Duration,
    ) -> Result<Current, Fault> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let this = self.clone();
        let making = self.home().spawn(async move { this.made().await });
        match timeout::within(within, making).await {
            Ok(Ok(made)) => made,
            Ok(Err(ended)) => Err(fault::not_made(&ended)),
            Err(_) => Err(fault::timed_out(within)),
        }
    }

    /// The connection, if there is one whose answers count whatever happens meanwhile.
    pub(in crate::redis) fn at_hand(&self) -> Option<Current> {
        if self.route.is_fixed() { self.current() } else { None }
    }

    /// Sends one command over the connection [`at_hand`](Self::at_hand).
    pub(in crate::redis) async fn send(
        &self,
        mut current: Current,
        command: &Cmd,
    ) -> Result<Value, Unserved> {
        // Not by `ConnectionLike`, which puts each call on the heap.
        let sending = current.connection.send_packed_command(command);
        match request::answered(timeout::within(REQUEST_WITHIN, sending).await, REQUEST_WITHIN) {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.unserved(failure, current)),
        }
    }

    /// Sends one command. `within` bounds the answer, and before it the making of a connection;
    /// [`REQUEST_WITHIN`] bounds both together. On a fault whose effect is not known, the
    /// connection is told too, as only there can a later command be sure to come after this one.
    pub(in crate::redis) async fn call(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, Unserved> {
        self.exchange(Request { command, replicas: None }, within).await
    }

    /// The same, and behind a grant a `WAIT`; both answers in an array.
    pub(in crate::redis) async fn call_and_wait(
        self: &Arc<Self>,
        command: &Cmd,
        replicas: Replicas,
        within: Duration,
    ) -> Result<Value, Unserved> {
        self.exchange(Request { command, replicas: Some(replicas) }, within).await
    }

    async fn exchange(
        self: &Arc<Self>,
        request: Request<'_>,
        within: Duration,
    ) -> Result<Value, Unserved> {
        self.exchange_over(request, None, within).await.map(|(answer, _)| answer)
    }

    /// Sends one command over the connection of this number only, if one is given; also the number
    /// of the connection that it was sent over.
    pub(in crate::redis) async fn exchange_over(
        self: &Arc<Self>,
        request: Request<'_>,
        only: Option<u64>,
        within: Duration,
    ) -> Result<(Value, u64), Unserved> {
        let unready = || Unserved { fault: Failure::Other(fault::unready()), sent: None };
        let is_only = |number: u64| only.is_none_or(|only| only == number);
        let (mut current, within) = self.ready(within).await?;
        if !is_only(current.number) {
            return Err(unready());
        }
        let answer = {
            let sending = pin!(request.send(&mut current.connection, within));
            self.in_term(current.term, sending).await
        };
        match answer {
            Ok(answer) => Ok((answer, current.number)),
            Err(failure) => Err(self.unserved(failure, current)),
        }
    }

    /// Sends several commands in one write, as [`call`](Self::call) does one. Each has an answer
    /// of its own, which may be an error. They are made once there is a connection: what is said
    /// over it may hang on whether it [tracks](Self::tracks).
    pub(in crate::redis) async fn call_each(
        self: &Arc<Self>,
        commands: impl FnOnce() -> redis::Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Unserved> {
        let (mut current, within) = self.ready(within).await?;
        let commands = commands();
        let answers = {
            let sending = pin!(send_each(&mut current.connection, &commands, within));
            self.in_term(current.term, sending).await
        };
        let number = current.number;
        let answers = answers.map_err(|failure| self.unserved(failure, current))?;
        // What is an error of one command here may be one of the connection.
        if let Some(failure) = request::lasting(&answers) {
            self.failed(number, &failure);
        }
        Ok(answers)
    }

    /// The connection, and how long an answer may take.
    async fn ready(self: &Arc<Self>, within: Duration) -> Result<(Current, Duration), Unserved> {
        let unsent = |fault: Fault| Unserved { fault: Failure::Other(fault.unsent()), sent: None };
        if let Some(current) = self.current() {
            return Ok((current, within.min(REQUEST_WITHIN)));
        }
        let until = clock::now().plus(REQUEST_WITHIN);
        // The connecting is on the heap, as it is rare, and calls are not.
        let connection = Box::pin(self.get(within)).await.map_err(unsent)?;
        let left = until.saturating_duration_since(clock::now());
        Ok((connection, within.min(left)))
    }

    fn unserved(&self, fault: Failure, sent: Current) -> Unserved {
        self.failed(sent.number, &fault);
        let Current { connection, runtime, .. } = sent;
        Unserved { fault, sent: Some(Sent { connection, runtime }.into()) }
    }

    /// The answer, if it comes while the term goes on.
    async fn in_term<T>(
        &self,
        term: u64,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(superseded) = self.route.superseded(term) else { return answer.await };
        tokio::select! {
            // First: an answer that is there when the term is over does not count.
            biased;
            () = superseded => Err(Failure::Other(fault::superseded())),
            answer = answer => answer,
        }
    }

    /// Gives a connection up that is of no use any more.
    fn failed(&self, number: u64, failure: &Failure) {
        if !failure.is_lasting() {
            return;
        }
        self.broken(number);
        self.route.look();
        self.standing_here().iter().for_each(come_back);
    }
}

fn strs(names: &[Arc<str>]) -> impl Iterator<Item = &str> {
    names.iter().map(AsRef::as_ref)
}

/// Brings a connection back, with growing pauses, for as long as somebody has it. One task does so,
/// however many find that it is gone.
fn come_back(connection: &Arc<Connection>) {
    if connection.comes_back.swap(true, Ordering::AcqRel) {
        return;
    }
    let coming = Coming(Arc::downgrade(connection));
    drop(connection.home().spawn(async move {
        for failures in 1.. {
            let Some(connection) = coming.0.upgrade() else { return };
            if connection.made().await.is_ok() {
                drop(coming);
                // It may have gone meanwhile, and whoever found that was told that this task is there.
                if connection.current().is_none() {
                    come_back(&connection);
                }
                return;
            }
            let pauses = if connection.route.is_fixed() { RECONNECT_PAUSES } else { FAULT_PAUSES };
            drop(connection);
            clock::alarm_in(pauses.pause(failures, clock::random_bits())).await;
        }
    }));
}

/// A connection that a task brings back, until the task ends, however it does.
struct Coming(Weak<Connection>);

impl Drop for Coming {
    fn drop(&mut self) {
        if let Some(connection) = self.0.upgrade() {
            connection.comes_back.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
