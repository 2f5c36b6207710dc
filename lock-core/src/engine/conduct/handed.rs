//! Waking whoever a key was handed to, so that an idle worker can run it at once.
//!
//! The task that a worker of Tokio woke last waits in a slot of that worker until the running task
//! yields. No other worker can steal from the slot. The running task has just given a lock up, and
//! may compute for long. So another task is woken behind the first, and takes the slot.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use crate::ground::foreign;

/// Wakes the tasks that one key is handed to.
#[derive(Debug, Default)]
pub(in crate::engine) struct Handed(OnceLock<Arc<Follower>>);

/// The task that is woken behind them. Each key that is handed on has one, as long as it is busy:
/// to spawn one each time is a fifth of what a hand-off costs.
#[derive(Debug)]
struct Follower {
    home: Id,
    waker: OnceLock<Waker>,
    /// It waits, and so is put where it is wanted when it is woken; else it may be elsewhere.
    waits: AtomicBool,
    ended: AtomicBool,
}

impl Handed {
    pub(in crate::engine) fn wake(&self, waker: Waker) {
        foreign::wake(waker);
        if let Ok(runtime) = Handle::try_current()
            && runtime.runtime_flavor() == RuntimeFlavor::MultiThread
        {
            self.follow(&runtime);
        }
    }

    /// The key is not busy any more.
    pub(in crate::engine) fn end(&self) {
        if let Some(follower) = self.0.get() {
            follower.ended.store(true, Ordering::SeqCst);
            follower.wake();
        }
    }

    fn follow(&self, runtime: &Handle) {
        let mut is_new = false;
        let follower = self.0.get_or_init(|| {
            is_new = true;
            let follower = Arc::new(Follower::of(runtime.id()));
            drop(runtime.spawn(follower.clone().wait()));
            follower
        });
        if !is_new && (follower.home != runtime.id() || !follower.wake()) {
            drop(runtime.spawn(std::future::ready(())));
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Follower {
    fn of(home: Id) -> Self {
        let (waits, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { home, waker: OnceLock::new(), waits, ended }
    }

    /// Whether it waited, and is woken now.
    fn wake(&self) -> bool {
        let waits = self.waits.load(Ordering::SeqCst) && self.waits.swap(false, Ordering::SeqCst);
        if let Some(waker) = self.waker.get().filter(|_| waits) {
            waker.wake_by_ref();
        }
        waits
    }

    async fn wait(self: Arc<Self>) {
        poll_fn(|cx| {
            self.waker.get_or_init(|| cx.waker().clone());
            self.waits.store(true, Ordering::SeqCst);
            // Behind that: who ends it wakes it, or is seen here.
            if self.ended.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    /// A test that waits for longer is broken.
    const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

    #[test]
    fn whoever_is_woken_runs_while_the_one_that_woke_it_computes() {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (handed, tasks) = (Arc::new(Handed::default()), 5);
        let (wakers, waiting) = mpsc::channel();
        let (runs, ran) = mpsc::channel();
        for _ in 0..tasks {
            let (wakers, runs) = (wakers.clone(), runs.clone());
            let mut is_woken = false;
            runtime.spawn(poll_fn(move |cx| {
                let sent = if is_woken {
                    runs.send(()).is_ok()
                } else {
                    wakers.send(cx.waker().clone()).is_ok()
                };
                assert!(sent);
                if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
        let holder = async move {
            // The first makes the follower; for the second it waits nowhere yet.
            for _ in 0..tasks {
                handed.wake(waiting.recv_timeout(ANSWERED_WITHIN).unwrap());
                // This task does not yield: whoever runs does so on the other worker.
                ran.recv_timeout(ANSWERED_WITHIN).expect("it runs meanwhile");
            }
        };
        runtime.block_on(runtime.spawn(holder)).unwrap();
    }

    #[test]
    fn the_follower_ends_with_its_key() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let handed = Arc::new(Handed::default());
        let alive = || runtime.metrics().num_alive_tasks();
        let wakes = handed.clone();
        runtime.block_on(runtime.spawn(async move { wakes.wake(Waker::noop().clone()) })).unwrap();
        // The task that has ended counts for a moment longer.
        runtime.block_on(async {
            while alive() > 1 {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(alive(), 1);
        handed.end();
        runtime.block_on(async {
            while alive() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
}
