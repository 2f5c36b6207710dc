//! Many tasks of two processes take sets of keys as chance has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fastrand::Rng;
use lock_core::{AcquireError, LockClient, MultiLockGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::{Stage, Test, ms, secs};

const TASKS: usize = 16;
const ROUNDS: usize = 12;
const KEYS: usize = 6;

/// Who is inside of which key.
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
    let several = locks.all(keys.iter().map(usize::to_string)).wait(secs(60));
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

#[tokio::test(start_paused = true)]
async fn each_key_has_one_holder_and_all_come_to_their_end() -> Test {
    for seed in 0..25 {
        let (stage, rooms) = (Stage::new(), Arc::new(Rooms::default()));
        let begun = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let client = if task % 2 == 0 { &stage.locks } else { &stage.rival };
                let seed = seed * 1_000 + task as u64;
                tokio::spawn(visitor(client.clone(), rooms.clone(), seed))
            })
            .collect();
        for task in tasks {
            task.await?.map_err(|error| format!("seed {seed}: {error}"))?;
        }
        let visits = rooms.visits.load(Ordering::SeqCst);
        assert!(visits > 100, "seed {seed}: {visits} visits");
        // Nobody waited for a time-out: each visit takes 5 ms at most, and timers round up.
        assert!(begun.elapsed() < ms(20) * visits, "seed {seed}: {:?}", begun.elapsed());
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}
