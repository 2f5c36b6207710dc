//! A future dropped at any point, over a store in any state, leaves nothing, and the next in line
//! goes on.

use std::future::Future;
use std::time::Duration;

use lock_core::LockGuard;
use lock_core::backend::FaultKind;
use lock_core::test_util::{Act, Cut, Verb, cut};
use tokio::time::{sleep, timeout};

use crate::{Stage, Test, ms, secs, settle};

pub(crate) const LEASE: Duration = secs(6);

const ACTS: [Act; 5] =
    [Act::Ok, Act::Err(FaultKind::Transient), Act::Lost, Act::Slow(ms(700)), Act::Never];

pub(crate) const CUTS: [Cut; 14] = [
    Cut::Unpolled,
    Cut::Turns(0),
    Cut::Turns(1),
    Cut::Turns(2),
    Cut::Turns(3),
    Cut::Turns(4),
    Cut::Turns(6),
    Cut::Woken(1),
    Cut::Woken(2),
    Cut::After(ms(1)),
    Cut::After(ms(400)),
    Cut::After(ms(1_000)),
    Cut::After(ms(2_500)),
    Cut::After(ms(7_000)),
];

/// The holder of the key when the future begins; holders let go after a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scene {
    Free,
    HeldHere,
    HeldElsewhere,
}

/// Puts the acts to the script.
pub(crate) fn set(stage: &Stage, acts: [Act; 3]) {
    for (verb, act) in Verb::ALL.into_iter().zip(acts) {
        stage.script.always(verb, act);
    }
}

async fn hold(stage: &Stage, scene: Scene) -> Result<(), lock_core::AcquireError> {
    let client = match scene {
        Scene::Free => return Ok(()),
        Scene::HeldHere => &stage.locks,
        Scene::HeldElsewhere => &stage.rival,
    };
    let guard = client.lock("k").lease(LEASE).await?;
    tokio::spawn(async move {
        sleep(secs(1)).await;
        drop(guard);
    });
    Ok(())
}

/// Whatever happened, once the store is well again the key is free at once: not when the lease of
/// something forgotten has ended.
async fn goes_on(stage: &Stage, scene: Scene, case: &str) {
    if scene != Scene::Free {
        sleep(ms(1_100)).await;
    }
    stage.script.heal();
    match stage.rival.lock("k").wait(ms(2_500)).await {
        Ok(guard) => guard.release().await.expect("a store that is well"),
        Err(error) => panic!("{case}: {error}"),
    }
    stage.is_clean(secs(3)).await;
}

/// All combinations of acts.
pub(crate) fn combinations() -> impl Iterator<Item = [Act; 3]> {
    let pairs = ACTS.into_iter().flat_map(|a| ACTS.into_iter().map(move |b| (a, b)));
    pairs.flat_map(|(a, b)| ACTS.into_iter().map(move |c| [a, b, c]))
}

/// Runs what `begin` makes of each stage, cut at each point in each scene.
pub(crate) async fn everywhere<F: Future>(scenes: &[Scene], begin: impl Fn(&Stage) -> F) -> Test {
    for scene in scenes {
        for acts in combinations() {
            for at in CUTS {
                let case = format!("{scene:?}, {acts:?}, {at:?}");
                let stage = Stage::new();
                hold(&stage, *scene).await?;
                set(&stage, acts);
                drop(cut(at, begin(&stage)).await);
                goes_on(&stage, *scene, &case).await;
            }
        }
    }
    Ok(())
}

pub(crate) const SCENES: [Scene; 3] = [Scene::Free, Scene::HeldHere, Scene::HeldElsewhere];

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquire_leaves_nothing_and_the_next_goes_on() -> Test {
    everywhere(&SCENES, |stage| {
        stage.locks.lock("k").lease(LEASE).wait(secs(4)).retries(1).acquire()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_force_acquire_leaves_nothing_and_the_next_goes_on() -> Test {
    everywhere(&SCENES, |stage| {
        stage.locks.lock("k").lease(LEASE).wait(secs(4)).retries(1).force_acquire()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_try_leaves_nothing_and_the_next_goes_on() -> Test {
    everywhere(&SCENES, |stage| stage.locks.lock("k").lease(LEASE).try_acquire()).await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_drops_its_work_and_the_next_goes_on() -> Test {
    everywhere(&SCENES, |stage| {
        stage.locks.lock("k").lease(LEASE).wait(secs(4)).run(|_| sleep(secs(3)))
    })
    .await
}

/// Takes the key while the store is well.
async fn taken(stage: &Stage) -> Result<LockGuard, lock_core::AcquireError> {
    stage.locks.lock("k").lease(LEASE).await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_release_goes_on_whoever_waits() -> Test {
    for waiter in [None, Some(Scene::HeldHere), Some(Scene::HeldElsewhere)] {
        for acts in combinations() {
            for at in CUTS {
                let stage = Stage::new();
                let guard = taken(&stage).await?;
                let client =
                    if waiter == Some(Scene::HeldHere) { &stage.locks } else { &stage.rival };
                let waiting = waiter
                    .map(|_| tokio::spawn(client.lock("k").lease(LEASE).wait(secs(20)).acquire()));
                sleep(ms(1)).await;
                set(&stage, acts);
                drop(cut(at, guard.release()).await);
                stage.script.heal();
                let case = format!("{waiter:?} {acts:?} {at:?}");
                if let Some(waiting) = waiting {
                    match timeout(ms(2_500), waiting).await {
                        Ok(next) => drop(next?.map_err(|error| format!("{case}: {error}"))?),
                        Err(_) => panic!("{case}: the waiter was not granted"),
                    }
                }
                goes_on(&stage, Scene::Free, &case).await;
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiters_behind_a_cancelled_one_are_granted_in_their_order() -> Test {
    for gone in 0..3_usize {
        for at in CUTS {
            let stage = Stage::new();
            hold(&stage, Scene::HeldElsewhere).await?;
            let (order, mut seen) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..3_usize {
                let (acquire, order) = (stage.locks.lock("k").acquire(), order.clone());
                tokio::spawn(async move {
                    if number == gone {
                        drop(cut(at, acquire).await);
                    } else {
                        let guard = acquire.await.expect("its turn");
                        order.send(number).expect("a listening test");
                        drop(guard);
                    }
                });
                tokio::task::yield_now().await;
            }
            drop(order);
            let mut got = Vec::new();
            while let Some(number) = seen.recv().await {
                got.push(number);
            }
            let expected: Vec<_> = (0..3).filter(|number| *number != gone).collect();
            assert_eq!(got, expected, "{gone} {at:?}");
            goes_on(&stage, Scene::HeldElsewhere, "in order").await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_last_waiter_that_goes_leaves_the_line_of_the_store_at_once() -> Test {
    for waiters in 1..4_usize {
        let stage = Stage::new();
        let held = stage.rival.lock("k").lease(secs(60)).await?;
        let mut tasks: Vec<_> =
            (0..waiters).map(|_| tokio::spawn(stage.locks.lock("k").acquire())).collect();
        settle().await;
        while let Some(task) = tasks.pop() {
            assert_eq!(stage.rival.inspect("k").await?.waiters.len(), 1);
            task.abort();
            assert!(task.await.is_err());
            settle().await;
        }
        assert!(stage.rival.inspect("k").await?.waiters.is_empty());
        held.release().await?;
        stage.is_clean(ms(1)).await;
    }
    Ok(())
}
