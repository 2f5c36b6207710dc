//! A million keys, each used once, leave nothing behind that grows with their number.
//!
//! The only test of its process, as it looks at the memory of all of it.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use lock_core::LockClient;
use lock_core::memory::Memory;
use lock_tower::LockLayer;
use lock_tower::key::header;
use tests::wait::eventually;
use tokio::task::JoinSet;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Keys that are used through the layer, and by guards alone.
const REQUESTS: u64 = 250_000;
const GUARDS: u64 = 750_000;

/// Used before, so that the allocator and all maps have the size that they keep.
const WARM_UP: u64 = 20_000;

const TASKS: u64 = 8;

/// The growth that the allocator may cause by itself. A key of these that is kept takes more than
/// 32 bytes, which makes 8 MB of the requests alone.
const GROWTH_MAX: u64 = 6 << 20;

/// The memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// Takes and releases each of `count` keys, none of which was used before.
async fn take_each(locks: &LockClient, round: &str, count: u64) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (locks, round) = (locks.clone(), round.to_owned());
        tasks.spawn(async move {
            for number in 0..count / TASKS {
                let key = format!("{round}:{task}:{number}");
                let guard = locks.lock(key).await.expect("a free key");
                guard.release().await.expect("it is held");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("all are taken");
    }
}

/// Sends a request for each of `count` keys, none of which was used before.
async fn request_each(locks: &LockClient, round: &str, count: u64) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let handler = service_fn(|_: Request<Empty<Bytes>>| async {
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        });
        let layer = LockLayer::new(locks.clone()).key(header("order:{x-order}"));
        let (service, round) = (layer.layer(handler), round.to_owned());
        tasks.spawn(async move {
            for number in 0..count / TASKS {
                let request = Request::post("/pay")
                    .header("x-order", format!("order-{round}-{task}-{number}"))
                    .body(Empty::new())
                    .expect("a request");
                let answer = service.clone().oneshot(request).await.expect("no error");
                assert_eq!(answer.status(), 200);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("all are answered");
    }
    // Guards give their locks back in the background.
    eventually("no key is busy", || locks.stats().keys == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_keys_leave_no_memory_behind() {
    let store = Memory::new();
    let locks = LockClient::with_backend(store.clone());
    take_each(&locks, "warm-up", WARM_UP).await;
    request_each(&locks, "warm-up", WARM_UP).await;
    let before = resident();
    take_each(&locks, "measured", GUARDS).await;
    let between = resident();
    request_each(&locks, "measured", REQUESTS).await;
    let after = resident();
    assert_eq!(locks.stats().acquired, 2 * WARM_UP + GUARDS + REQUESTS);
    assert_eq!((locks.busy_keys().len(), store.keys()), (0, 0));
    for (what, grown) in
        [("guards", between.saturating_sub(before)), ("requests", after.saturating_sub(between))]
    {
        assert!(grown < GROWTH_MAX, "the {what} left {grown} bytes behind");
    }
    assert!(locks.shutdown(Duration::from_secs(5)).await.complete);
}
