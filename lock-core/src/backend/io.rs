//! Where the connections of a store live: on a thread of their own, off all runtimes of the
//! application.
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

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, Timeout};

pub use crate::ground::{
    Pauses,
    timeout::{Late, Within, by, within},
};
use crate::ground::{clock, lock, own_thread};

static SHARED: Mutex<Weak<Home>> = Mutex::new(Weak::new());

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
    /// That of this process, whatever the number of its clients and stores, on the thread `lock-io`.
    /// It starts with the first who asks, and ends with the last who has it.
    ///
    /// # Errors
    ///
    /// Where the system has no thread for it, or no descriptor.
    pub fn shared() -> io::Result<Arc<Self>> {
        let mut shared = lock(&SHARED);
        if let Some(home) = shared.upgrade() {
            return Ok(home);
        }
        let home = Self::start(NAME)?;
        *shared = Arc::downgrade(&home);
        Ok(home)
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
    use std::time::Duration;

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
    fn its_timers_fire_for_who_has_none() {
        let home = Home::start("test").unwrap();
        let soon = clock::now() + Duration::from_millis(1);
        assert!(block_on(home.timeout_at(soon, pending::<()>())).is_err());
    }
}
