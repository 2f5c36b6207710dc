//! No argument outlives the lock.

use std::sync::{Arc, Mutex};

use lock_core::{AcquireError, LockClient, distributed_lock};

use crate::is_held;

type Outcome<T = ()> = Result<T, AcquireError>;
type Log = Arc<Mutex<Vec<(&'static str, usize)>>>;

/// Notes how many locks are held when it is dropped.
struct Argument {
    name: &'static str,
    locks: LockClient,
    log: Log,
}

impl Drop for Argument {
    fn drop(&mut self) {
        self.log.lock().unwrap().push((self.name, self.locks.stats().held));
    }
}

struct Pair(Argument, Argument);

#[distributed_lock(key = "k", client = locks)]
async fn work(
    locks: LockClient,
    _first: Argument,
    Pair(_second, mut third): Pair,
    forever: bool,
) -> Outcome {
    third.name = "third";
    if forever {
        std::future::pending::<()>().await;
    }
    Ok(())
}

impl Argument {
    #[distributed_lock(key = "k", client = self.locks)]
    async fn work(self, _other: Argument, forever: bool) -> Outcome {
        if forever {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

fn argument(locks: &LockClient, name: &'static str, log: &Log) -> Argument {
    Argument { name, locks: locks.clone(), log: log.clone() }
}

/// Runs `future` until it has the lock, then drops it.
async fn cancel<F: Future>(locks: &LockClient, future: F) {
    tokio::select! {
        biased;
        _ = future => unreachable!("it stays"),
        () = async { while locks.stats().held == 0 { tokio::task::yield_now().await } } => {}
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_are_dropped_in_their_usual_order_while_the_lock_is_held() {
    let locks = LockClient::memory();
    let log = Log::default();
    let call = |forever| {
        let pair = Pair(argument(&locks, "second", &log), argument(&locks, "?", &log));
        work(locks.clone(), argument(&locks, "first", &log), pair, forever)
    };
    call(false).await.unwrap();
    assert_eq!(*log.lock().unwrap(), [("third", 1), ("second", 1), ("first", 1)]);

    log.lock().unwrap().clear();
    cancel(&locks, call(true)).await;
    assert_eq!(*log.lock().unwrap(), [("third", 1), ("second", 1), ("first", 1)]);
    assert!(!is_held(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_by_value_is_dropped_under_the_lock_too() {
    let locks = LockClient::memory();
    let log = Log::default();
    let call =
        |forever| argument(&locks, "self", &log).work(argument(&locks, "other", &log), forever);
    call(false).await.unwrap();
    assert!(log.lock().unwrap().iter().all(|(_, held)| *held == 1));

    log.lock().unwrap().clear();
    cancel(&locks, call(true)).await;
    assert_eq!(log.lock().unwrap().len(), 2);
    assert!(log.lock().unwrap().iter().all(|(_, held)| *held == 1));
}
