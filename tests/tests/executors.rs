//! Locks on another executor than Tokio's, and in a runtime of Tokio that has no timers.

#![allow(clippy::disallowed_methods)]

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_executor::block_on;
use lock_core::backend::FaultKind;
use lock_core::error::{ConnectError, LossReason};
use lock_core::memory::Memory;
use lock_core::redis::RedisRecords;
use lock_core::test_util::{Act, Scripted, Verb};
use lock_core::{Key, LockClient};
use tests::redis::RedisServer;
use tests::support::ms;
use tokio::runtime::{Builder, Runtime};

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Without any driver: neither timers nor I/O.
fn timeless() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

/// All that an application may ask.
async fn uses_all_of_it(locks: LockClient) -> Test {
    let election = locks.election("nightly").lease(ms(20_000));
    let term = election.run_for("host-3").await?;
    let leader = election.leader().await?.expect("somebody leads");
    assert_eq!(&*leader.value, "host-3");
    let mut leaders = election.observe();
    let first = leaders.next().await.expect("an item")?;
    assert_eq!(first.as_ref().map(|leader| &*leader.value), Some("host-3"));
    assert!(election.try_run_for("host-4").await?.is_none());
    term.resign().await?;
    assert_eq!(leaders.next().await.expect("a second item")?, None);
    drop(leaders);

    let guard = locks.lock("k").lease(ms(20_000)).await?;
    assert_eq!(locks.inspect("k").await?.holders.len(), 1);
    assert!(locks.lock("k").try_acquire().await?.is_none());
    assert!(locks.lock("k").wait(ms(30)).retries(1).await.unwrap_err().is_timeout());
    assert!(locks.force_release("k").await?);
    assert_eq!(guard.lost().await.reason(), LossReason::Taken);
    let revoked = locks.request_revoke("k").await;
    assert!(revoked.is_ok_and(|was| !was) || !locks.capabilities().revocation);
    drop(guard);
    locks.lock_all(["a", "b"]).await?.release().await?;
    assert!(locks.shutdown(ms(20_000)).await.complete);
    Ok(())
}

#[test]
fn a_store_in_this_process_serves_any_executor() -> Test {
    block_on(uses_all_of_it(LockClient::memory()))?;
    timeless().block_on(uses_all_of_it(LockClient::memory()))
}

#[test]
fn redis_is_connected_to_and_serves_on_any_executor() -> Test {
    let server = RedisServer::start();
    block_on(async { uses_all_of_it(LockClient::connect(&server.url()).await?).await })?;
    timeless().block_on(async { uses_all_of_it(LockClient::connect(&server.url()).await?).await })
}

#[test]
fn a_candidate_pauses_on_any_executor_while_the_store_is_not_ready() -> Test {
    for is_timeless in [false, true] {
        let (backend, script) = Scripted::new(Memory::new());
        let locks = LockClient::with_backend(backend);
        script.next(Verb::Attempt, Act::Err(FaultKind::Unready));
        let election = locks.election("nightly");
        let running = pin!(election.run_for("host-3"));
        let term = if is_timeless { timeless().block_on(running) } else { block_on(running) }?;
        assert_eq!(script.calls_of(Verb::Attempt).len(), 2);
        block_on(term.resign())?;
    }
    Ok(())
}

#[test]
fn that_a_runtime_has_no_timers_is_found_out_once() -> Test {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let here = thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(usize::from(thread::current().id() == here), Ordering::Relaxed);
        before(panic);
    }));
    timeless().block_on(async {
        let locks = LockClient::memory();
        for _ in 0..3 {
            // Longer than the conductor leaves a key alone.
            let guard = locks.lock("k").lease(ms(20_000)).await?;
            assert!(locks.lock("k").wait(ms(120)).await.unwrap_err().is_timeout());
            assert!(guard.is_held());
            guard.release().await?;
        }
        Test::Ok(())
    })?;
    assert!(PANICS.load(Ordering::Relaxed) <= 1, "{PANICS:?}");
    Ok(())
}

#[test]
fn to_connect_where_no_runtime_can_serve_it_is_an_error_of_its_own() {
    // Nobody listens there, and nobody is asked.
    let urls = [
        "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "zookeeper+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
    ];
    for url in urls {
        for connected in [
            block_on(LockClient::connect(url)).map(drop),
            timeless().block_on(LockClient::connect(url)).map(drop),
        ] {
            let error = connected.expect_err("there is no runtime");
            assert!(matches!(error, ConnectError::NoRuntime), "{url}: {error:?}");
            assert!(error.to_string().contains("enable_all"), "{error}");
        }
    }
    let records = block_on(RedisRecords::connect("redis://127.0.0.1:1")).map(drop);
    assert!(matches!(records, Err(ConnectError::NoRuntime)), "{records:?}");
    // The connections of an application's pool live where they are asked for.
    let pool = || {
        let config = deadpool_redis::Config::from_url("redis://127.0.0.1:1");
        config.create_pool(Some(deadpool_redis::Runtime::Tokio1)).expect("a good URL")
    };
    let one = || LockClient::builder("redis://127.0.0.1:1").redis_pool(pool());
    let each = || LockClient::builder(urls[0]).redis_pools([pool(), pool(), pool()]);
    let without_io = Builder::new_current_thread().enable_time().build().expect("a runtime");
    for connected in [
        block_on(one().connect()).map(drop),
        timeless().block_on(one().connect()).map(drop),
        without_io.block_on(one().connect()).map(drop),
        without_io.block_on(each().connect()).map(drop),
        block_on(RedisRecords::with_pool(pool())).map(drop),
        without_io.block_on(RedisRecords::with_pool(pool())).map(drop),
    ] {
        let error = connected.expect_err("there is no I/O");
        assert!(matches!(error, ConnectError::NoRuntime), "{error:?}");
    }
    // Other stores have a thread of their own: they go as far as to ask.
    for url in [
        "redis://127.0.0.1:1",
        "redis+unix:///nowhere",
        "redis+sentinel://127.0.0.1:1/main",
        "redis+cluster://127.0.0.1:1",
    ] {
        for connected in [
            block_on(LockClient::connect(url)).map(drop),
            timeless().block_on(LockClient::connect(url)).map(drop),
        ] {
            let error = connected.expect_err("nobody listens there");
            assert!(matches!(error, ConnectError::Store(_)), "{url}: {error:?}");
        }
    }
    // A store that needs none is as it was.
    let locks = block_on(LockClient::connect("memory:")).expect("a client");
    assert_eq!(
        block_on(locks.inspect(Key::new("k").expect("a key"))).expect("it"),
        Default::default()
    );
}
