//! Curator on command.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::answer::{Answer, Event, Failure, Grant, Recipe};
use super::desk::Desk;
use super::process::Process;
use crate::wait::PATIENCE;

/// Starts fast; what these JVMs do takes no longer for it.
const JVM: [&str; 4] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms16m", "-Xmx64m"];

/// A Java process with one Curator client, killed when dropped.
///
/// A *handle* is a name that the test chooses. Each has a thread of its own, since Curator's mutex
/// belongs to a thread; its commands run in their order, those of different handles at once. A
/// handle holds one lock at a time.
///
/// The methods that return a future have sent their command when they return; the future is only
/// the answer, and dropping it forgets the answer. Each panics, with the end of Java's standard
/// error, if the answer does not come within [`PATIENCE`] (of an `acquire`: after its wait), or if
/// the program is gone.
#[derive(Debug)]
pub struct Curator {
    process: Process,
    desk: Arc<Desk>,
    session: i64,
    session_timeout: Duration,
}

impl Curator {
    /// Starts the program and connects it to `connect_string` (`host:port,…`, with a chroot if it
    /// has one), asking for `session`.
    ///
    /// The server must serve, not only accept connections: ZooKeeper 3.8.0 leaves a session that
    /// is asked for during its start without an answer, and Curator asks again only after
    /// `session`.
    ///
    /// # Panics
    ///
    /// If `java`, `javac` or Curator's jars are missing, with the Debian package, or if there is
    /// no session within 10 s.
    pub async fn start(connect_string: &str, session: Duration) -> Self {
        let (process, output) = Process::start(&JVM, &["serve"]).await;
        let desk = Desk::open(output);
        let mut curator =
            Curator { process, desk, session: 0, session_timeout: Duration::default() };
        let command = format!("connect {} {}", word(connect_string), ms(session));
        // Java waits for a session as long as others wait for an answer.
        match curator.ask(command, 2 * PATIENCE).await {
            Ok(answer) => {
                curator.session = answer.session;
                curator.session_timeout = Duration::from_millis(answer.session_ms);
                curator
            }
            Err(failure) => curator.process.stderr().panic(&failure.message),
        }
    }

    /// The session's id, the `ephemeralOwner` of this program's lock nodes. A session that
    /// followed a lost one has another id.
    #[must_use]
    pub fn session(&self) -> i64 {
        self.session
    }

    /// The session time-out that the server agreed to.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    /// Waits for the mutex at `path` for at most `wait`; `None` if the time was up. With a `wait`
    /// of zero it joins the line, looks once and leaves.
    ///
    /// # Errors
    ///
    /// The exception that Curator throws, as without a connection. It is an `IllegalStateException`
    /// if `handle` holds a lock already.
    pub fn acquire(
        &self,
        handle: &str,
        path: &str,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Grant>, Failure>> + Send + use<> {
        self.acquire_as(Recipe::Mutex, handle, path, wait)
    }

    /// The same with another of Curator's locks.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_as(
        &self,
        recipe: Recipe,
        handle: &str,
        path: &str,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Grant>, Failure>> + Send + use<> {
        let command = format!("acquire {} {} {} {recipe}", word(handle), word(path), ms(wait));
        let answer = self.ask(command, wait + PATIENCE);
        async { answer.await.map(Answer::grant) }
    }

    /// Acquires the mutex that `handle` holds once more, with the same lock node.
    ///
    /// # Errors
    ///
    /// `IllegalStateException` if `handle` holds nothing.
    pub fn reacquire(
        &self,
        handle: &str,
    ) -> impl Future<Output = Result<Option<Grant>, Failure>> + Send + use<> {
        let answer = self.ask(format!("reacquire {}", word(handle)), PATIENCE);
        async { answer.await.map(Answer::grant) }
    }

    /// Takes the read lock of the write lock that `handle` holds, and gives the latter back.
    ///
    /// # Errors
    ///
    /// `IllegalStateException` if `handle` holds no write lock, or what Curator throws.
    pub fn downgrade(
        &self,
        handle: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let answer = self.ask(format!("downgrade {}", word(handle)), PATIENCE);
        async { answer.await.map(drop) }
    }

    /// Gives one level of the mutex back; true if `handle` holds another level still.
    ///
    /// # Errors
    ///
    /// `IllegalStateException` if `handle` holds nothing, or what Curator throws.
    pub fn release(
        &self,
        handle: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + use<> {
        let answer = self.ask(format!("release {}", word(handle)), PATIENCE);
        async { Ok(answer.await?.held) }
    }

    /// Curator's `isAcquiredInThisProcess` for the mutex of `handle`. It goes by what the handle
    /// did, not by what became of the session, and is true for a moment after a release has let
    /// the next one in. It does not wait for the handle's other commands.
    ///
    /// # Errors
    ///
    /// None that Curator is known to throw.
    pub fn is_held(
        &self,
        handle: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + use<> {
        let answer = self.ask(format!("is_held {}", word(handle)), PATIENCE);
        async { Ok(answer.await?.held) }
    }

    /// The paths of the lock nodes at `path`, the holder's first; none if the directory is missing.
    ///
    /// # Errors
    ///
    /// The exception that Curator throws, as without a connection.
    pub fn participants(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Vec<String>, Failure>> + Send + use<> {
        let answer = self.ask(format!("participants {}", word(path)), PATIENCE);
        async { Ok(answer.await?.nodes) }
    }

    /// The id of who leads the election at `path`, as a `LeaderLatch` sees it.
    ///
    /// # Errors
    ///
    /// The exception that Curator throws, as without a connection.
    pub fn leader(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<String>, Failure>> + Send + use<> {
        let answer = self.ask(format!("leader {}", word(path)), PATIENCE);
        async { Ok(answer.await?.nodes.into_iter().next()) }
    }

    /// Makes what `handle` acquires later revocable: a revocation is an [`Event::Revoked`], after
    /// which `handle` releases if it `obeys`.
    ///
    /// # Errors
    ///
    /// None that Curator is known to throw.
    pub fn make_revocable(
        &self,
        handle: &str,
        obeys: bool,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let option = if obeys { " release" } else { "" };
        let answer = self.ask(format!("make_revocable {}{option}", word(handle)), PATIENCE);
        async { answer.await.map(drop) }
    }

    /// Asks the owner of the lock node at the path `node` to release. That there is no such node
    /// is no error.
    ///
    /// # Errors
    ///
    /// The exception that Curator throws, as without a connection.
    pub fn revoke(&self, node: &str) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let answer = self.ask(format!("revoke {}", word(node)), PATIENCE);
        async { answer.await.map(drop) }
    }

    /// The events so far, in their order.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.desk.events().borrow().clone()
    }

    /// The first event, of those so far and those to come, that is `wanted`.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`, with `what` and the events that came.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: events are kept.
    pub async fn event(
        &self,
        what: &str,
        limit: Duration,
        mut wanted: impl FnMut(&Event) -> bool,
    ) -> Event {
        let mut events = self.desk.events();
        let come = events.wait_for(|events| events.iter().any(&mut wanted));
        let found = match timeout(limit, come).await {
            Ok(Ok(events)) => events.iter().find(|event| wanted(event)).cloned(),
            Ok(Err(_)) | Err(_) => None,
        };
        found.unwrap_or_else(|| {
            let came = self.events();
            self.process.stderr().panic(&format!("after {limit:?} not yet: {what}, only {came:?}"))
        })
    }

    /// The program's pid; `None` once it was killed.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Freezes it (`SIGSTOP`): its session ends when the server has not heard of it for as long.
    pub fn freeze(&mut self) {
        self.process.freeze();
    }

    /// Wakes it (`SIGCONT`).
    pub fn thaw(&mut self) {
        self.process.thaw();
    }

    /// Kills it (`SIGKILL`) and waits for its end. Its session and its locks live on until the
    /// server ends them.
    ///
    /// # Cancel safety
    ///
    /// It is killed at the first poll.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// Ends the session, and with it all locks, and then the program.
    ///
    /// # Panics
    ///
    /// If it does not end well within [`PATIENCE`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the program.
    pub async fn close(mut self) {
        if let Err(failure) = self.ask("close".to_owned(), PATIENCE).await {
            self.process.stderr().panic(&failure.message);
        }
        let status = self.process.ended().await;
        assert!(status.success(), "the Java program ended with {status}");
    }

    fn ask(
        &self,
        command: String,
        limit: Duration,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send + use<> {
        let (id, answer) = self.desk.call();
        self.process.send(format!("{id} {command}"));
        let stderr = self.process.stderr().clone();
        let deadline = Instant::now() + limit;
        async move {
            match timeout_at(deadline, answer).await {
                Ok(Ok(answer)) => answer.outcome(),
                Ok(Err(_)) => stderr.panic(&format!("ended before it answered {command:?}")),
                Err(_) => stderr.panic(&format!("no answer to {command:?} in {limit:?}")),
            }
        }
    }
}

/// An argument as the line protocol can carry it.
fn word(text: &str) -> &str {
    let whole = !text.is_empty() && !text.contains(char::is_whitespace);
    assert!(whole, "{text:?} is no single word");
    text
}

fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).expect("at most 24 days")
}
