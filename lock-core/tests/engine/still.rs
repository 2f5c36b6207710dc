//! A caller whose task does not come to run.

use std::pin::pin;

use futures_util::poll;
use lock_core::LockClient;
use lock_core::backend::FaultKind;
use lock_core::memory::Memory;
use lock_core::options::Background;
use lock_core::test_util::{Act, Scripted, Verb};
use tokio::time::{Instant, sleep};

use crate::{Stage, Test, assert_after, ms, secs, settle};

/// Two requests, each of which is told to a task that stands still: the first of them is waited for,
/// and the other one is not.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_stands_still_is_waited_for_once() -> Test {
    let Stage { script, locks, rival, .. } = &Stage::new();
    let held = rival.lock("k").await?;
    let mut waits = pin!(locks.lock("k").wait(secs(60)).acquire());
    assert!(poll!(&mut waits).is_pending(), "it stands still from here on");
    // The key is grown up, and nobody was told anything yet.
    sleep(ms(100)).await;
    script.always(Verb::Attempt, Act::Never);
    held.release().await?;
    let released = Instant::now();
    script.called(Verb::Attempt, 2).await;
    assert_after(released, Instant::now(), ms(500));
    script.open(Verb::Attempt);
    settle().await;
    assert_eq!(locks.stats().held, 1, "the answer is heard at once");
    assert_after(released, Instant::now(), ms(500));
    waits.await?.release().await?;
    Ok(())
}

/// One that comes is not helped by the conductor: it is told, and polls by itself.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_late_once_and_comes_is_told_as_before() -> Test {
    let Stage { script, locks, rival, .. } = &Stage::new();
    let held = rival.lock("k").await?;
    let mut waits = pin!(locks.lock("k").wait(secs(60)).acquire());
    assert!(poll!(&mut waits).is_pending());
    sleep(ms(100)).await;
    script.always(Verb::Attempt, Act::Never);
    held.release().await?;
    script.called(Verb::Attempt, 2).await;
    // It was late, and is here now.
    assert!(poll!(&mut waits).is_pending());
    script.open(Verb::Attempt);
    settle().await;
    assert_eq!(locks.stats().held, 0, "it is told, and nobody else");
    waits.await?.release().await?;
    Ok(())
}

/// The pause between two tries, and the end of a wait, are due in whatever runtime polls them.
#[test]
fn a_wait_that_was_begun_in_a_runtime_that_is_gone_ends_in_another() -> Test {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let locks = |act| async move {
        let (backend, script) = Scripted::new(Memory::new());
        script.always(Verb::Attempt, act);
        let locks = LockClient::builder_with(backend).background(Background::Thread);
        locks.connect().await
    };
    for (act, retries) in [(Act::Err(FaultKind::Transient), 2), (Act::Never, 0)] {
        let (first, second) = (runtime()?, runtime()?);
        let locks = first.block_on(locks(act))?;
        let mut waits = Box::pin(locks.lock("k").wait(secs(3)).retries(retries).acquire());
        first.block_on(async {
            while poll!(&mut waits).is_pending() {
                if retries == 0 || format!("{waits:?}").contains("pausing") {
                    return;
                }
                tokio::task::yield_now().await;
            }
            panic!("it waits for longer");
        });
        drop(first);
        let ended = async { tokio::time::timeout(secs(20), waits).await };
        assert!(second.block_on(ended)?.is_err(), "{act:?}");
    }
    Ok(())
}
