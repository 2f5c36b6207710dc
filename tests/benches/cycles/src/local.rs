//! What one process does by itself, over memory, beside what Tokio's own primitives take for the same.

use std::sync::Arc;

use lock_core::LockClient;
use tokio::sync::{Mutex, RwLock, Semaphore};
use tokio::task::yield_now;

use crate::connect;

const KEY: &str = "cycles";

/// Permits of the key, of which one is held all the time.
const PERMITS: u32 = 4;

/// Two tasks that want the key at the same time: each release hands it to the other.
pub(crate) async fn hand_offs(count: usize) {
    async fn task(locks: LockClient, count: usize) {
        for _ in 0..count {
            let guard = locks.lock(KEY).await.expect("a grant within a minute");
            // Meanwhile the other comes to wait.
            yield_now().await;
            guard.release().await.expect("a held lock");
        }
    }
    let locks = connect("memory:").await;
    let tasks = [(); 2].map(|()| tokio::spawn(task(locks.clone(), count / 2)));
    for task in tasks {
        task.await.expect("no panic");
    }
    let handed = usize::try_from(locks.stats().handoffs_local).expect("a count");
    assert!(handed + 2 >= count, "{handed} of {count} were hand-offs");
}

pub(crate) async fn hand_offs_of_tokio(count: usize) {
    async fn task(lock: Arc<Mutex<()>>, count: usize) {
        for _ in 0..count {
            let guard = lock.lock().await;
            yield_now().await;
            drop(guard);
        }
    }
    let lock = Arc::new(Mutex::new(()));
    let tasks = [(); 2].map(|()| tokio::spawn(task(lock.clone(), count / 2)));
    for task in tasks {
        task.await.expect("no panic");
    }
}

/// A reader that comes and goes beside another.
pub(crate) async fn readers(count: usize) {
    let locks = connect("memory:").await;
    let beside = locks.lock(KEY).shared().await.expect("a free key");
    for _ in 0..count {
        let guard = locks.lock(KEY).shared().await.expect("a grant at once");
        guard.release().await.expect("a held lock");
    }
    beside.release().await.expect("a held lock");
}

pub(crate) async fn readers_of_tokio(count: usize) {
    let lock = RwLock::new(());
    let beside = lock.read().await;
    for _ in 0..count {
        drop(lock.read().await);
    }
    drop(beside);
}

/// One that comes and goes beside another, with permits left.
pub(crate) async fn permits(count: usize) {
    let locks = connect("memory:").await;
    let beside = locks.lock(KEY).permits(PERMITS).await.expect("a free key");
    for _ in 0..count {
        let guard = locks.lock(KEY).permits(PERMITS).await.expect("a grant at once");
        guard.release().await.expect("a held lock");
    }
    beside.release().await.expect("a held lock");
}

pub(crate) async fn permits_of_tokio(count: usize) {
    let permits = Semaphore::new(PERMITS as usize);
    let beside = permits.acquire().await.expect("it is open");
    for _ in 0..count {
        drop(permits.acquire().await.expect("it is open"));
    }
    drop(beside);
}
