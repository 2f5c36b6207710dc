//! A caller whose task does not come to run.

use std::pin::pin;

use futures_util::poll;
use lock_core::test_util::{Act, Verb};
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
