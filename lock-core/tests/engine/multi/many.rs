//! Many tasks of two processes take sets of keys as chance has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fastrand::Rng;
use lock_core::memory::Memory;
use lock_core::multi::MultiLockGuard;
use lock_core::options::Background;
use lock_core::{AcquireError, LockClient};
use tokio::time::{Instant, sleep, timeout};

use crate::{Stage, Test, ms, secs};

const TASKS: usize = 16;
const ROUNDS: usize = 12;
const KEYS: usize = 6;

/// The keys that somebody is inside of.
#[derive(Default)]
struct Rooms {
    taken: [AtomicBool; KEYS],
    visits: AtomicU32,
}

impl Rooms {
    async fn visit(&self, keys: &[usize], time: u64) {
        for key in keys {
            assert!(!self.taken[*key].swap(true, Ordering::SeqCst), "two have the key {key}");
        }
        sleep(ms(time)).await;
        for key in keys {
            self.taken[*key].store(false, Ordering::SeqCst);
        }
        self.visits.fetch_add(1, Ordering::SeqCst);
    }
}

async fn take(
    locks: &LockClient,
    keys: &[usize],
    chance: &mut Rng,
) -> Result<Option<MultiLockGuard>, AcquireError> {
    let several = locks.lock_all(keys.iter().map(usize::to_string)).wait(secs(60));
    match chance.usize(..6) {
        0 => several.try_acquire().await,
        // Dropped on the way, or not.
        1 => timeout(ms(chance.u64(..20)), several.acquire()).await.ok().transpose(),
        _ => several.await.map(Some),
    }
}

async fn visitor(locks: LockClient, rooms: Arc<Rooms>, seed: u64) -> Result<(), AcquireError> {
    let mut chance = Rng::with_seed(seed);
    for _ in 0..ROUNDS {
        let count = 1 + chance.usize(..KEYS);
        // In any order, some of them twice.
        let named: Vec<_> = (0..count).map(|_| chance.usize(..KEYS)).collect();
        let mut keys = named.clone();
        keys.sort_unstable();
        keys.dedup();
        let Some(all) = take(&locks, &named, &mut chance).await? else { continue };
        assert_eq!(all.keys().len(), keys.len());
        rooms.visit(&keys, chance.u64(..5)).await;
        if chance.bool() {
            all.release().await.expect("it was held");
        }
    }
    Ok(())
}

/// How many visits there were. All tasks have come to their end then.
async fn visits(clients: [&LockClient; 2], seed: u64) -> Result<u32, AcquireError> {
    let rooms = Arc::new(Rooms::default());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = clients[task % 2].clone();
            tokio::spawn(visitor(client, rooms.clone(), seed * 1_000 + task as u64))
        })
        .collect();
    for task in tasks {
        task.await.expect("one holder per key")?;
    }
    Ok(rooms.visits.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn each_key_has_one_holder_and_all_come_to_their_end() -> Test {
    for seed in 0..25 {
        let stage = Stage::new();
        let begun = Instant::now();
        let visits = visits([&stage.locks, &stage.rival], seed).await?;
        assert!(visits > 100, "seed {seed}: {visits} visits");
        // Nobody waited for a time-out: each visit takes 5 ms at most, and timers round up.
        assert!(begun.elapsed() < ms(20) * visits, "seed {seed}: {:?}", begun.elapsed());
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}

/// The same where tasks run at once, and dropped guards are the work of another thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_key_has_one_holder_in_threads_that_run_at_once() -> Test {
    let store = Memory::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = LockClient::builder_with(store.clone()).background(Background::Thread);
        clients.push(client.connect().await?);
    }
    assert!(visits([&clients[0], &clients[1]], 99).await? > 100);
    for client in clients {
        let report = client.shutdown(secs(10)).await;
        assert!(report.complete && report.abandoned == 0, "{report:?}");
    }
    assert_eq!(store.keys(), 0);
    Ok(())
}
