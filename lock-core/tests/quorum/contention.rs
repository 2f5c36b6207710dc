//! Several processes want one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use lock_core::LockClient;
use lock_core::test_util::{Act, Verb};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{Stage, ms, short};

/// Takes the key `turns` times, and sees to it that nobody else has it and that tokens grow.
async fn work(locks: LockClient, turns: u32, inside: Arc<AtomicU64>, last: Arc<AtomicU64>) {
    for _ in 0..turns {
        let guard = locks.lock("k").options(short().with_wait(ms(60_000))).await.unwrap();
        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two holders");
        let token = guard.token().get();
        assert!(last.swap(token, SeqCst) < token, "token {token}");
        sleep(ms(u64::from(fastrand::u8(..3)))).await;
        assert_eq!(inside.fetch_sub(1, SeqCst), 1);
        guard.release().await.unwrap();
    }
}

/// Links of all kinds: a store answers late, at random.
fn disturb(scripts: &[lock_core::test_util::Script]) {
    for script in scripts {
        for verb in Verb::ALL {
            for _ in 0..40 {
                let act = match fastrand::u8(..10) {
                    0 => Act::Lost,
                    1 => Act::Err(lock_core::backend::FaultKind::Transient),
                    2..=6 => Act::Slow(ms(fastrand::u64(1..40))),
                    _ => Act::Ok,
                };
                script.next(verb, act);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_holds_at_a_time_tokens_grow_and_everybody_is_served() {
    fastrand::seed(crate::SEED);
    for (members, disturbed) in [(3, false), (5, false), (3, true), (5, true)] {
        let stage = Stage::of(members);
        let (inside, last) = (Arc::default(), Arc::default());
        let mut workers = JoinSet::new();
        for _ in 0..6 {
            let (locks, scripts) = stage.another();
            if disturbed {
                disturb(&scripts);
            }
            workers.spawn(work(locks, 20, Arc::clone(&inside), Arc::clone(&last)));
        }
        while let Some(worker) = workers.join_next().await {
            worker.expect("no panic");
        }
        sleep(ms(5_000)).await;
        stage.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn three_that_have_one_member_each_do_not_wait_for_each_other_for_ever() {
    fastrand::seed(crate::SEED);
    for _ in 0..20 {
        let stage = Stage::of(3);
        let (inside, last) = (Arc::default(), Arc::default());
        let mut workers = JoinSet::new();
        for first in 0..3 {
            let (locks, scripts) = stage.another();
            // Each is the first at another member.
            for (member, script) in scripts.iter().enumerate() {
                if member != first {
                    script.next(Verb::Attempt, Act::Err(lock_core::backend::FaultKind::Transient));
                }
            }
            workers.spawn(work(locks, 3, Arc::clone(&inside), Arc::clone(&last)));
        }
        let begun = tokio::time::Instant::now();
        while let Some(worker) = workers.join_next().await {
            worker.expect("no panic");
        }
        assert!(begun.elapsed() < ms(2_000), "{:?}", begun.elapsed());
    }
}
