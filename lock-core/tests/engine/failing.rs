//! News of renewals that fail.

use std::pin::pin;

use futures_util::poll;
use lock_core::backend::FaultKind;
use lock_core::error::LossReason;
use lock_core::test_util::{Act, Verb};
use tokio::time::{Instant, sleep};

use crate::{Stage, Test, assert_after, ms, secs};

const FAULT: Act = Act::Err(FaultKind::Transient);

/// Nine seconds less 1 % and 2 ms.
const VALID_MS: u64 = 9_000 - 92;

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_that_renewals_fail_while_its_hold_is_good() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, FAULT);
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    let granted = stage.script.calls()[0].at;
    assert!(guard.renewal_failing().now().is_none());
    let (told, told_too) = tokio::join!(guard.renewal_failing(), guard.handle().renewal_failing());
    assert_after(granted, Instant::now(), secs(3));
    assert!(guard.is_held());
    for told in [told, told_too, guard.renewal_failing().now().ok_or("it fails")?] {
        let left = ms(VALID_MS) - secs(3);
        assert!(told.left() <= left && told.left() + ms(2) >= left, "{told:?}");
        assert!(told.error().is_retryable() && told.error().key() == guard.key(), "{told:?}");
    }
    // A later question is answered at once.
    guard.renewal_failing().await;
    assert_after(granted, Instant::now(), secs(3));
    // The next try, a ninth of the lease later, is served.
    stage.script.heal();
    sleep(secs(1) + ms(1)).await;
    assert!(guard.renewal_failing().now().is_none() && guard.is_held());
    let handle = guard.handle();
    let mut later = pin!(handle.renewal_failing());
    assert!(poll!(&mut later).is_pending());
    guard.release().await?;
    assert!(poll!(&mut later).is_pending() && handle.renewal_failing().now().is_none());
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn news_of_failing_renewals_end_with_the_hold() -> Test {
    let stage = Stage::new();
    stage.script.always(Verb::Renew, FAULT);
    let guard = stage.locks.lock("k").lease(secs(9)).await?;
    guard.renewal_failing().await;
    assert_eq!(guard.lost().await.reason(), LossReason::Expired);
    assert!(guard.renewal_failing().now().is_none());
    assert!(poll!(pin!(guard.renewal_failing())).is_pending());
    drop(guard);
    stage.script.heal();
    stage.is_clean(secs(30)).await;
    Ok(())
}
