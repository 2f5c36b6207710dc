//! A future dropped at any point, over a store in any state, leaves nothing, and the next in line
//! goes on.

use std::future::Future;

use bytes::Bytes;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Begun, CompleteError, Execution};
use lock_core::test_util::records::RecordVerb;
use lock_core::test_util::{Act, Cut, cut};
use tokio::time::{sleep, timeout};

use crate::{Stage, Test, begin, ms, run, secs, settle, waiting};

const ACTS: [Act; 5] =
    [Act::Ok, Act::Err(FaultKind::Transient), Act::Lost, Act::Slow(ms(700)), Act::Never];

const CUTS: [Cut; 14] = [
    Cut::Unpolled,
    Cut::Turns(0),
    Cut::Turns(1),
    Cut::Turns(2),
    Cut::Turns(3),
    Cut::Turns(6),
    Cut::Polled(1),
    Cut::Polled(2),
    Cut::Polled(3),
    Cut::Polled(4),
    Cut::After(ms(1)),
    Cut::After(ms(400)),
    Cut::After(ms(1_000)),
    Cut::After(ms(2_500)),
];

/// The execution that runs when the future begins; it aborts after a second.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scene {
    Free,
    RunsHere,
    RunsElsewhere,
}

async fn enact(stage: &Stage, scene: Scene) {
    let once = match scene {
        Scene::Free => return,
        Scene::RunsHere => &stage.once,
        Scene::RunsElsewhere => &stage.other,
    };
    let execution = run(once).await;
    tokio::spawn(async move {
        sleep(secs(1)).await;
        drop(execution);
    });
}

/// All combinations of acts of looking, claiming and aborting.
fn combinations() -> impl Iterator<Item = [(RecordVerb, Act); 3]> {
    let pairs = ACTS.into_iter().flat_map(|a| ACTS.into_iter().map(move |b| (a, b)));
    pairs.flat_map(|(a, b)| {
        ACTS.into_iter()
            .map(move |c| [(RecordVerb::Peek, a), (RecordVerb::Claim, b), (RecordVerb::Abort, c)])
    })
}

/// Whatever happened, once the store is well again another process runs, as if nobody had begun.
async fn goes_on(stage: &Stage, case: &str) {
    sleep(ms(1_100)).await;
    stage.script.heal();
    match begin(&waiting(&stage.other, ms(2_500))).await {
        Ok(Begun::Run(execution)) => {
            assert_eq!(execution.replaced(), None, "{case}: a claim was left");
            execution.abort().await.expect("a store that is well");
        }
        other => panic!("{case}: {other:?}"),
    }
    settle().await;
    stage.is_clean(0, secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_begin_leaves_nothing_and_the_next_goes_on() {
    for scene in [Scene::Free, Scene::RunsHere, Scene::RunsElsewhere] {
        for acts in combinations() {
            for at in CUTS {
                let case = format!("{scene:?}, {acts:?}, {at:?}");
                let stage = Stage::new();
                enact(&stage, scene).await;
                for (verb, act) in acts {
                    stage.script.always(verb, act);
                }
                let once = waiting(&stage.once, secs(4));
                // An execution that was begun is dropped too.
                drop(cut(at, begin(&once)).await);
                goes_on(&stage, &case).await;
            }
        }
    }
}

/// The duplicates behind a leader that goes are led by the next of them.
#[tokio::test(start_paused = true)]
async fn duplicates_behind_a_cancelled_leader_go_on() -> Test {
    for scene in [Scene::Free, Scene::RunsElsewhere] {
        for act in ACTS {
            for at in CUTS {
                let case = format!("{scene:?} {act:?} {at:?}");
                let stage = Stage::new();
                enact(&stage, scene).await;
                stage.script.next(RecordVerb::Peek, act);
                stage.script.next(RecordVerb::Claim, act);
                let leader = stage.once.clone();
                let leader = tokio::spawn(async move {
                    drop(cut(at, begin(&leader)).await);
                });
                settle().await;
                let duplicate = crate::spawned(&stage.once);
                settle().await;
                stage.script.heal();
                leader.await?;
                stage.script.heal();
                match timeout(secs(5), duplicate).await {
                    Ok(begun) => match begun? {
                        Ok(Begun::Run(execution)) => execution.abort().await?,
                        other => panic!("{case}: {other:?}"),
                    },
                    Err(_) => panic!("{case}: nobody leads"),
                }
                goes_on(&stage, &case).await;
            }
        }
    }
    Ok(())
}

/// From its first poll on a completion goes on; before it, dropping it aborts.
#[tokio::test(start_paused = true)]
async fn a_cancelled_completion_goes_on() -> Test {
    for act in ACTS {
        for at in CUTS {
            let case = format!("{act:?} {at:?}");
            let stage = Stage::new();
            let execution = run(&stage.once).await;
            stage.script.always(RecordVerb::Complete, act);
            drop(cut(at, execution.complete(Bytes::from_static(b"paid"))).await);
            settle().await;
            stage.script.heal();
            match (at, begin(&waiting(&stage.other, secs(3))).await) {
                (Cut::Unpolled, Ok(Begun::Run(execution))) => execution.abort().await?,
                (_, Ok(Begun::Replay(payload))) => assert_eq!(payload, "paid", "{case}"),
                (_, other) => panic!("{case}: {other:?}"),
            }
            settle().await;
            let records = usize::from(!matches!(at, Cut::Unpolled));
            stage.is_clean(records, secs(3)).await;
        }
    }
    Ok(())
}

type Ending = fn(Execution) -> std::pin::Pin<Box<dyn Future<Output = Result<(), CompleteError>>>>;

#[tokio::test(start_paused = true)]
async fn a_cancelled_abort_goes_on() {
    let ending: Ending = |execution| Box::pin(execution.abort());
    for act in ACTS {
        for at in CUTS {
            let stage = Stage::new();
            let execution = run(&stage.once).await;
            stage.script.always(RecordVerb::Abort, act);
            drop(cut(at, ending(execution)).await);
            goes_on(&stage, &format!("{act:?} {at:?}")).await;
        }
    }
}
