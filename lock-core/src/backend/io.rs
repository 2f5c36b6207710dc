//! The home of a store's connections: a thread of their own, off all runtimes of the application.
//!
//! A socket is served by the runtime that made it. Where that is the application's, whoever blocks
//! it holds the store's connections up, and the leases at the store end meanwhile. So a store makes
//! its connections on a [`Home`], and runs there whatever serves them: the tasks of a client
//! library, what keeps a session alive, what reads pushes. Requests are sent from where they are
//! asked for, and their answers wake whoever waits for them: a request crosses over once and comes
//! back once.
//!
//! Timers have the same trap. A verb that the caller's task began is polled by the engine's own
//! thread when that task does not come to run, or when its runtime is gone. So a bound on time is
//! one of a [`Home`], or a [`within`] or [`by`], which make their timer anew for whoever polls.
//!
//! A store over a network is made of a connection that is made and served at home, and of requests
//! that are bounded in time.
//!
//! ```
//! use std::collections::VecDeque;
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use lock_core::backend::io::{Home, within};
//! use lock_core::backend::{Fault, FaultKind};
//! use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! use tokio::net::TcpStream;
//! use tokio::sync::{mpsc, oneshot};
//!
//! /// How long an answer may take. Every verb is bounded.
//! const WITHIN: Duration = Duration::from_secs(2);
//!
//! type Asked = (String, oneshot::Sender<String>);
//!
//! /// A line for each request, and a line for each answer, in their order.
//! struct Link {
//!     /// As long as somebody has this, the thread runs.
//!     _home: Arc<Home>,
//!     requests: mpsc::UnboundedSender<Asked>,
//! }
//!
//! fn fault(what: &str) -> Fault {
//!     Fault::new(FaultKind::Transient, what)
//! }
//!
//! impl Link {
//!     async fn connect(addr: SocketAddr) -> Result<Self, Fault> {
//!         let home = Home::shared()?;
//!         // Made there, so served there.
//!         let socket = home.run(WITHIN, TcpStream::connect(addr)).await;
//!         let unreachable = || fault("the store cannot be reached").unsent();
//!         let socket = socket.map_err(|_| unreachable())?.map_err(|_| unreachable())?;
//!         let (requests, asked) = mpsc::unbounded_channel();
//!         drop(home.spawn(serve(socket, asked)));
//!         Ok(Self { _home: home, requests })
//!     }
//!
//!     /// Asked by a task of the application or by the engine's own thread.
//!     async fn ask(&self, request: &str) -> Result<String, Fault> {
//!         let (answer, answered) = oneshot::channel();
//!         let asked = (format!("{request}\n"), answer);
//!         self.requests.send(asked).map_err(|_| fault("the connection is gone").unsent())?;
//!         let answer = within(WITHIN, answered).await.map_err(|_| fault("no answer in time"))?;
//!         answer.map_err(|_| fault("the connection was lost"))
//!     }
//! }
//!
//! async fn serve(mut socket: TcpStream, mut asked: mpsc::UnboundedReceiver<Asked>) {
//!     let (read, mut write) = socket.split();
//!     let (mut lines, mut waiting) = (BufReader::new(read).lines(), VecDeque::new());
//!     loop {
//!         tokio::select! {
//!             request = asked.recv() => {
//!                 let Some((request, answer)) = request else { return };
//!                 waiting.push_back(answer);
//!                 if write.write_all(request.as_bytes()).await.is_err() { return }
//!             }
//!             line = lines.next_line() => {
//!                 let Ok(Some(line)) = line else { return };
//!                 // Whoever asked may be gone.
//!                 if let Some(answer) = waiting.pop_front() { let _ = answer.send(line); }
//!             }
//!         }
//!     }
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = std::net::TcpListener::bind(("127.0.0.1", 0))?;
//! # let addr = server.local_addr()?;
//! # std::thread::spawn(move || {
//! #     let (client, _) = server.accept().expect("a client");
//! #     std::io::copy(&mut &client, &mut &client)
//! # });
//!
//! // No runtime of the application is needed, so none can hold the connection up.
//! let link = futures_executor::block_on(Link::connect(addr))?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! // A client polls verbs in a runtime that has timers, the application's or its own.
//! assert_eq!(runtime.block_on(link.ask("attempt order:42"))?, "attempt order:42");
//! # Ok(()) }
//! ```
//!
//! A connection that is lost comes back by the next who asks, after [`Pauses`] where that fails.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::process;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, Timeout};

use super::{Fault, FaultKind};
pub use crate::ground::{
    Pauses,
    timeout::{Late, Within, by, within},
};
use crate::ground::{clock, lock, own_thread};

static SHARED: Shared = Shared::none();

/// A home, and the id of the process that its thread is of. A fork leaves the child without it.
#[derive(Debug)]
struct Shared(Mutex<(u32, Weak<Home>)>);

impl Shared {
    const fn none() -> Self {
        Self(Mutex::new((0, Weak::new())))
    }

    /// The home of this process, started if need be.
    fn of(&self, process: u32) -> io::Result<Arc<Home>> {
        let mut shared = lock(&self.0);
        if shared.0 == process
            && let Some(home) = shared.1.upgrade()
        {
            return Ok(home);
        }
        let home = Home::start(NAME)?;
        *shared = (process, Arc::downgrade(&home));
        Ok(home)
    }
}

/// The name of the thread that all stores of a process share.
const NAME: &str = "lock-io";

/// A thread with a small runtime, off all runtimes of the application. It has timers, and sockets
/// where Tokio was built with them (its feature `net`).
///
/// The thread runs for as long as somebody has this. Nobody waits for its end, so the last may be a
/// task of its own. Tasks that are left then are dropped. All tasks share the one thread: a task
/// that blocks it blocks them all.
#[derive(Debug)]
pub struct Home {
    runtime: Handle,
    /// Nothing is ever sent: its drop ends the thread.
    _stays: oneshot::Sender<Infallible>,
}

impl Home {
    /// The home of this process, whatever the number of its clients and stores, on the thread
    /// `lock-io`. It starts with the first who asks, and ends with the last who has it. A fork
    /// leaves the child without its parent's thread, and it starts one of its own. The parent's
    /// connections are of no use there.
    ///
    /// # Errors
    ///
    /// A transient fault where the system has no thread for it, or no descriptor.
    pub fn shared() -> Result<Arc<Self>, Fault> {
        SHARED.of(process::id()).map_err(|error| {
            let what = format!("the thread `{NAME}` cannot be started: {error}");
            Fault::new(FaultKind::Transient, what).unsent().with_source(error)
        })
    }

    /// One of your own, on a thread of this name: for a store whose tasks take the processor for
    /// more than moments at a time.
    ///
    /// # Errors
    ///
    /// Where the system has no thread for it, or no descriptor.
    pub fn start(name: &str) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stays, ends) = oneshot::channel();
        let runtime = own_thread::start(name, runtime, || ends)?;
        Ok(Arc::new(Self { runtime, _stays: stays }))
    }

    /// Runs a task here, to its end whatever becomes of the caller. One that makes a connection
    /// makes it here, and it is served here from then on.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// Has a request done here, for at most this time, and goes on with it whatever becomes of the
    /// caller. It begins at once.
    ///
    /// # Errors
    ///
    /// [`Late`] where the time was over first, and where this was dropped before the answer.
    ///
    /// # Panics
    ///
    /// If the request does.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the request to itself, which ends with its time.
    pub fn run<F>(
        &self,
        time: Duration,
        request: F,
    ) -> impl Future<Output = Result<F::Output, Late>> + Send + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let running = self.spawn(within(time, request));
        async {
            match running.await {
                Ok(answer) => answer,
                Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                Err(_) => Err(Late),
            }
        }
    }

    /// Stands still until the answer is dropped.
    #[cfg(test)]
    pub(crate) fn stand_still(&self) -> std::sync::mpsc::Sender<Infallible> {
        let (still, goes_on) = std::sync::mpsc::channel();
        drop(self.spawn(async move { goes_on.recv() }));
        still
    }

    /// The number of tasks that live here.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    /// A timer that fires whatever becomes of the runtime of the caller. By the process's own clock,
    /// [`Instant::now`] outside of tests; the time of a suspension of the machine is not counted.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        let _timers = self.runtime.enter();
        clock::sleep_until(at)
    }

    /// Waits until then at most, whatever becomes of the runtime of the caller.
    ///
    /// # Cancel safety
    ///
    /// As `future`, which is polled by the caller.
    pub fn timeout_at<F: Future>(&self, until: Instant, future: F) -> Timeout<F> {
        let _timers = self.runtime.enter();
        tokio::time::timeout_at(clock::timer(until), future)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_executor::block_on;

    use super::*;

    /// Resolves when the runtime of this home has dropped its tasks.
    fn end_of(home: &Home) -> oneshot::Receiver<()> {
        let (dropped, end) = oneshot::channel();
        drop(home.spawn(async move {
            let _dropped: oneshot::Sender<()> = dropped;
            pending::<()>().await;
        }));
        end
    }

    #[test]
    fn all_of_a_process_have_one() {
        let (one, other) = (Home::shared().unwrap(), Home::shared().unwrap());
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn the_child_of_a_fork_has_one_of_its_own() {
        let shared = Shared::none();
        let (parents, again) = (shared.of(1).unwrap(), shared.of(1).unwrap());
        assert!(Arc::ptr_eq(&parents, &again));
        // A child finds the parent's home in its memory, and the thread is not there.
        let childs = shared.of(2).unwrap();
        assert!(!Arc::ptr_eq(&parents, &childs) && Arc::ptr_eq(&childs, &shared.of(2).unwrap()));
        assert_eq!(block_on(childs.spawn(async { 7 })).unwrap(), 7);
    }

    #[test]
    fn it_ends_with_the_last_who_has_it() {
        let home = Home::start("test").unwrap();
        let (end, also) = (end_of(&home), home.clone());
        drop(home);
        assert_eq!(block_on(also.spawn(async { 7 })).unwrap(), 7);
        drop(also);
        assert!(block_on(end).is_err());
    }

    #[test]
    fn it_ends_where_the_last_who_has_it_is_a_task_of_its_own() {
        let home = Home::start("test").unwrap();
        let (end, (go, gone)) = (end_of(&home), oneshot::channel::<()>());
        let last = home.clone();
        let task = home.spawn(async move {
            gone.await.unwrap();
            drop(last);
        });
        drop(home);
        go.send(()).unwrap();
        block_on(task).unwrap();
        assert!(block_on(end).is_err());
    }

    #[test]
    fn a_task_that_panics_takes_nothing_with_it() {
        let home = Home::start("test").unwrap();
        let panics = home.spawn(async { std::panic::resume_unwind(Box::new("a bug")) });
        assert!(block_on(panics).unwrap_err().is_panic());
        assert_eq!(block_on(home.spawn(async { 7 })).unwrap(), 7);
    }

    #[test]
    fn a_request_ends_in_time_and_whatever_becomes_of_who_asked() {
        let home = Home::start("test").unwrap();
        let soon = Duration::from_millis(1);
        assert_eq!(block_on(home.run(soon, pending::<()>())), Err(Late));
        let (done, is_done) = oneshot::channel();
        drop(home.run(Duration::from_secs(60), async { done.send(7) }));
        assert_eq!(block_on(is_done), Ok(7));
    }

    #[test]
    fn its_timers_fire_for_who_has_none() {
        let home = Home::start("test").unwrap();
        let soon = clock::now() + Duration::from_millis(1);
        assert!(block_on(home.timeout_at(soon, pending::<()>())).is_err());
    }
}
