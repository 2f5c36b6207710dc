//! Bodies beside each other: readers, and those with a permit.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use lock_core::error::Rejection;
use lock_core::{AcquireError, LockClient, distributed_lock};
use tokio::task::JoinHandle;

type Outcome<T = ()> = Result<T, AcquireError>;

/// How many bodies are inside, and the most that ever were.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Inside {
    async fn stay(&self) {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.now.fetch_sub(1, SeqCst);
    }

    fn now(&self) -> usize {
        self.now.load(SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(SeqCst)
    }
}

/// The body is inside when the clock goes on: it is paused, and everybody else waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn spawn<F: Future<Output = Outcome> + Send + 'static>(call: F) -> JoinHandle<Outcome> {
    tokio::spawn(call)
}

#[distributed_lock(key = "doc:{id}", client = locks, shared)]
async fn read(locks: LockClient, id: u8, inside: Arc<Inside>) -> Outcome {
    inside.stay().await;
    Ok(())
}

#[distributed_lock(key = "doc:{id}", client = locks)]
async fn write(locks: LockClient, id: u8, inside: Arc<Inside>) -> Outcome {
    inside.stay().await;
    Ok(())
}

#[distributed_lock(keys = ["doc:{id}", "index"], client = locks, shared)]
async fn look_up(locks: LockClient, id: u8, inside: Arc<Inside>) -> Outcome {
    inside.stay().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_are_inside_together_and_the_writer_is_inside_alone() {
    let (locks, inside) = (LockClient::memory(), Arc::new(Inside::default()));
    let readers = [
        spawn(read(locks.clone(), 7, inside.clone())),
        spawn(look_up(locks.clone(), 7, inside.clone())),
    ];
    settle().await;
    assert_eq!(inside.now(), 2);
    let writer = spawn(write(locks.clone(), 7, inside.clone()));
    settle().await;
    assert_eq!(inside.now(), 2, "the writer waits");
    let late = spawn(read(locks.clone(), 7, inside.clone()));
    for reader in readers {
        reader.await.unwrap().unwrap();
    }
    settle().await;
    assert_eq!(inside.now(), 1, "the writer is alone, and was not overtaken");
    assert!(!late.is_finished() && !writer.is_finished());
    writer.await.unwrap().unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(inside.most(), 2);
}

const FIVE: u32 = 5;

#[distributed_lock(key = "api:{tenant}", client = locks, permits = 5)]
async fn call(locks: LockClient, tenant: u8, inside: Arc<Inside>) -> Outcome {
    inside.stay().await;
    Ok(())
}

#[distributed_lock(keys = ["api:{tenant}", "api:0"], client = locks, permits = FIVE)]
async fn call_both(locks: LockClient, tenant: u8, inside: Arc<Inside>) -> Outcome {
    inside.stay().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn as_many_are_inside_as_there_are_permits() {
    let (locks, inside) = (LockClient::memory(), Arc::new(Inside::default()));
    let calls: Vec<_> = (0..12)
        .map(|n| match n % 2 {
            0 => spawn(call(locks.clone(), 7, inside.clone())),
            _ => spawn(call_both(locks.clone(), 7, inside.clone())),
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(inside.most(), 5);
    assert_eq!(locks.stats().held, 0);
}

#[distributed_lock(key = "api:{tenant}", client = locks, permits = permits)]
async fn call_with(locks: &LockClient, tenant: u8, permits: u32) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_no_number_of_permits_or_another_than_that_in_use_is_rejected() {
    let locks = LockClient::memory();
    for permits in [0, 1_025] {
        match call_with(&locks, 7, permits).await {
            Err(AcquireError::Rejected(Rejection::Permits { given, .. })) => {
                assert_eq!(given, permits);
            }
            other => panic!("{other:?}"),
        }
    }
    let _held = locks.lock("api:7").permits(5).await.unwrap();
    call_with(&locks, 7, 5).await.unwrap();
    match call_with(&locks, 7, 4).await {
        Err(AcquireError::Rejected(Rejection::OtherLimit { given: 4, in_use: 5, .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[distributed_lock(key = "doc:{id}", client = locks, shared)]
async fn read_then_write(locks: &LockClient, id: u8) -> Outcome {
    write(locks.clone(), id, Arc::default()).await
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_calls_a_writer_of_its_key_is_rejected_and_does_not_wait_for_itself() {
    let error = read_then_write(&LockClient::memory(), 7).await.unwrap_err();
    assert!(matches!(error, AcquireError::Rejected(Rejection::Upgrade { .. })), "{error:?}");
}
