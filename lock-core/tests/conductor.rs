//! The one thread of a client. It is counted in the whole process, so this is one test.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use lock_core::LockClient;
use lock_core::memory::Memory;
use lock_core::options::Background;

type Test = Result<(), Box<dyn std::error::Error>>;

/// How many threads of this process are conductors.
fn conductors() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
    let names = threads.filter_map(|thread| name(thread.ok()?).ok());
    names.filter(|name| name.trim() == "lock-conductor").count()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "still not: {what}");
        std::thread::yield_now();
    }
}

async fn client(background: Background) -> LockClient {
    let builder = LockClient::builder_with(Memory::new()).background(background);
    builder.connect().await.expect("a store in this process")
}

#[test]
fn a_client_has_one_thread_from_its_first_lock_to_its_end() -> Test {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let locks = runtime.block_on(client(Background::Thread));
    assert_eq!(conductors(), 0, "before the first lock");
    let guards = runtime.block_on(async {
        tokio::try_join!(locks.lock("a").acquire(), locks.lock("b").acquire())
    })?;
    until("one, by its name", || conductors() == 1);
    // It keeps what outlives its runtime.
    drop(runtime);
    drop(guards);
    until("both are given back", || locks.stats().keys == 0);
    assert_eq!(conductors(), 1);
    let clone = locks.clone();
    drop(locks);
    assert_eq!(conductors(), 1);
    drop(clone);
    until("it has ended with the client", || conductors() == 0);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = client(Background::Runtime).await;
        let guard = locks.lock("a").await?;
        assert_eq!(conductors(), 0, "it is a task of this runtime");
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
        guard.release().await?;
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
        Test::Ok(())
    })
}
