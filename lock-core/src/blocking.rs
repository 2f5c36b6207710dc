//! Locks for threads that no runtime polls: a plain thread, `spawn_blocking`, a command-line tool.
//!
//! All futures of this crate can be waited for so, but for what its page says needs a runtime: a
//! quorum is connected to inside of one, and executions of an `Idempotency` are tasks.
//!
//! ```
//! use std::thread;
//!
//! use lock_core::LockClient;
//! use lock_core::blocking::wait;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = wait(LockClient::connect("memory:"))?; // or "redis://127.0.0.1"
//! let worker = thread::spawn(move || -> Result<(), lock_core::error::RunError> {
//!     let work = locks.lock("order:42").run(async |lock| println!("under {}", lock.token()));
//!     wait(work)
//! });
//! worker.join().expect("no panic")?;
//! # Ok(()) }
//! ```
//!
//! `#[distributed_lock(key = "order:{id}", blocking)]` does so for a plain `fn`.

use std::future::Future;

use tokio::sync::oneshot;

/// Waits for a future on this thread, which stands still meanwhile.
///
/// The work of the future is done on this thread: the work of a `run` may block it as it likes. Holds
/// are renewed meanwhile, as a client does that on a thread of its own. One of `memory:` has such a
/// thread from the first wait here on where no runtime is entered. In `spawn_blocking` and
/// `block_in_place` a task of that runtime renews them.
///
/// # Panics
///
/// Where the thread polls the tasks of a Tokio runtime: they would stand still with it, and the
/// holder that is waited for may be one of them. `spawn_blocking` and `block_in_place` have places
/// for it.
pub fn wait<F: Future>(future: F) -> F::Output {
    // Tokio knows whether this thread may block, and tells it in this way alone. The answer is there
    // before it is waited for.
    let (answers, answer) = oneshot::channel();
    let _ = answers.send(());
    let _ = answer.blocking_recv();
    pollster::block_on(future)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::LockClient;

    type Test = Result<(), Box<dyn std::error::Error>>;

    /// A test that waits for longer is broken.
    const WITHIN: Duration = Duration::from_secs(20);

    #[test]
    fn threads_stand_in_one_line_and_time_out_without_any_runtime() -> Test {
        let locks = wait(LockClient::connect("memory:"))?;
        let held = wait(locks.lock("k").acquire())?;
        let soon = locks.lock("k").wait(Duration::from_millis(30));
        assert!(wait(soon.acquire()).unwrap_err().is_timeout());
        let (had, is_had) = mpsc::channel();
        let other = locks.clone();
        let waiter = std::thread::spawn(move || {
            let guard = wait(other.lock("k").wait(WITHIN).acquire()).expect("its turn");
            had.send(guard.token()).expect("somebody listens");
            wait(guard.release())
        });
        while locks.stats().waiters < 1 {
            std::thread::yield_now();
        }
        let token = held.token();
        wait(held.release())?;
        assert!(is_had.recv_timeout(WITHIN)? > token);
        waiter.join().expect("no panic")?;
        Ok(())
    }

    #[test]
    fn what_is_called_under_a_lock_and_blocks_re_enters_it() -> Test {
        let locks = wait(LockClient::connect("memory:"))?;
        let work = locks.lock("k").run(async |lock| {
            // As a plain function does that is called under it.
            let inner = wait(locks.lock("k").acquire()).expect("its own hold");
            inner.token() == lock.token()
        });
        assert!(wait(work)?);
        Ok(())
    }

    #[test]
    fn a_thread_that_polls_tasks_is_not_blocked() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let waits = AssertUnwindSafe(|| runtime.block_on(async { wait(async {}) }));
        assert!(catch_unwind(waits).is_err());
        let beside =
            runtime.block_on(async { tokio::task::spawn_blocking(|| wait(async { 7 })).await });
        assert_eq!(beside.expect("no panic"), 7);
    }
}
