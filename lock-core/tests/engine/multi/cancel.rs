//! Dropped at any point, over a store in any state, nothing stays held of any key.

use std::time::Duration;

use lock_core::test_util::{Act, Verb, cut};
use tokio::time::{sleep, timeout};

use super::{KEYS, taken};
use crate::cancel::{CUTS, LEASE, SCENES, combinations, everywhere, set};
use crate::{Stage, Test, ms, secs};

// The one in the middle is that which others hold in some scenes.

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquire_leaves_no_key_and_the_next_goes_on() -> Test {
    everywhere(&SCENES, |stage| {
        stage.locks.lock_all(KEYS).lease(LEASE).wait(secs(4)).retries(1).acquire()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_try_leaves_no_key_and_the_next_goes_on() -> Test {
    everywhere(&SCENES, |stage| stage.locks.lock_all(KEYS).lease(LEASE).try_acquire()).await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_drops_its_work_and_leaves_no_key() -> Test {
    everywhere(&SCENES, |stage| {
        stage.locks.lock_all(KEYS).lease(LEASE).wait(secs(4)).run(|_| sleep(secs(3)))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_release_goes_on_for_all_keys() -> Test {
    for acts in combinations() {
        for at in CUTS {
            let stage = Stage::new();
            let all = stage.locks.lock_all(KEYS).lease(LEASE).await?;
            set(&stage, acts);
            drop(cut(at, all.release()).await);
            stage.script.heal();
            match stage.rival.lock_all(KEYS).wait(ms(2_500)).await {
                Ok(all) => all.release().await?,
                Err(error) => panic!("{acts:?} {at:?}: {error}"),
            }
            stage.is_clean(secs(3)).await;
        }
    }
    Ok(())
}

/// The store takes 100 ms for everything, so each step of the way is cut in its middle: before the
/// first answer, between two keys, in the line of the last one, in the middle of giving up, in the
/// pause before the next try.
#[tokio::test(start_paused = true)]
async fn whichever_step_is_cut_all_keys_are_free_soon_and_none_is_renewed_again() -> Test {
    let mut seen_held = 0;
    for step in 0..30 {
        let at = ms(50 + 50 * step);
        let stage = Stage::new();
        let held = stage.rival.lock("l").lease(secs(60)).await?;
        for verb in Verb::ALL {
            stage.script.always(verb, Act::Slow(ms(100)));
        }
        let several = stage.locks.lock_all(KEYS).lease(ms(900)).wait(ms(600)).retries(1);
        assert!(timeout(at, several.acquire()).await.is_err() || at >= ms(1_200), "{at:?}");
        seen_held += u32::from(taken(&stage).await?[0]);
        // An attempt that was under way, and its withdrawal behind it.
        sleep(ms(210)).await;
        assert_eq!(taken(&stage).await?, [false, false, true], "{at:?}");
        let asked = stage.script.calls().len();
        sleep(Duration::from_secs(3)).await;
        assert_eq!(stage.script.calls().len(), asked, "{at:?}: something is still at work");
        held.release().await?;
        stage.is_clean(ms(1)).await;
    }
    assert!(seen_held > 10, "the cuts are where something is held: {seen_held}");
    Ok(())
}
