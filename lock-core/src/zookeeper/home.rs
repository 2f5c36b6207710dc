//! Where sessions live: on a thread of their own, `lock-zookeeper`, off all runtimes of the
//! application.
//!
//! A session that is not served for its timeout is gone at the servers, and every lock of its
//! client with it. So nothing that an application does to its runtimes may hold a session up. The
//! client library's own task, the keeper, watches and removals run here, in a small runtime.
//! Requests are sent from where they are asked for, and their answers wake whoever waits for them.
//! So a request crosses over once and comes back once. The timers of requests are of this runtime,
//! too: others poll what a caller has begun when its own runtime is blocked or gone.
//!
//! There is one such thread in a process, whatever the number of clients and of members of a quorum.
//! It starts with the first and ends with the last of those who have it. Sessions keep it until
//! their farewell is over.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, Timeout};

use crate::engine::{clock, lock, own_thread};

static SHARED: Mutex<Weak<Home>> = Mutex::new(Weak::new());

/// The thread `lock-zookeeper` and its runtime, where all sessions of the process live. It runs for
/// as long as somebody has this; nobody waits for its end, so the last may be a task of its own.
#[derive(Debug)]
pub(super) struct Home {
    runtime: Handle,
    /// Nothing is ever sent: its drop ends the thread.
    _stays: oneshot::Sender<Infallible>,
}

impl Home {
    /// That of this process.
    pub(super) fn shared() -> io::Result<Arc<Self>> {
        let mut shared = lock(&SHARED);
        if let Some(home) = shared.upgrade() {
            return Ok(home);
        }
        let home = Self::start()?;
        *shared = Arc::downgrade(&home);
        Ok(home)
    }

    fn start() -> io::Result<Arc<Self>> {
        // The client library does its I/O by a reactor of its own.
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (stays, ends) = oneshot::channel();
        let runtime = own_thread::start("lock-zookeeper", runtime, || ends)?;
        Ok(Arc::new(Self { runtime, _stays: stays }))
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// A timer that fires whatever becomes of the runtime of the caller.
    pub(super) fn sleep_until(&self, at: Instant) -> Sleep {
        let _timers = self.runtime.enter();
        clock::sleep_until(at)
    }

    /// Waits until then at most, whatever becomes of the runtime of the caller.
    pub(super) fn timeout_at<F: Future>(&self, until: Instant, future: F) -> Timeout<F> {
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
        let home = Home::start().unwrap();
        let (end, also) = (end_of(&home), home.clone());
        drop(home);
        assert_eq!(block_on(also.spawn(async { 7 })).unwrap(), 7);
        drop(also);
        assert!(block_on(end).is_err());
    }

    #[test]
    fn it_ends_where_the_last_who_has_it_is_a_task_of_its_own() {
        let home = Home::start().unwrap();
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
        let home = Home::start().unwrap();
        let panics = home.spawn(async { std::panic::resume_unwind(Box::new("a bug")) });
        assert!(block_on(panics).unwrap_err().is_panic());
        assert_eq!(block_on(home.spawn(async { 7 })).unwrap(), 7);
    }

    #[test]
    fn its_timers_fire_for_who_has_none() {
        let home = Home::start().unwrap();
        let soon = clock::now() + Duration::from_millis(1);
        assert!(block_on(home.timeout_at(soon, pending::<()>())).is_err());
    }
}
