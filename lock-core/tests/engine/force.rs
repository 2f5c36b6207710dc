//! Having the key taken away.

use lock_core::error::{LossReason, OperatorError};
use lock_core::{Key, LockClient};
use tokio::time::timeout;

use crate::mute::Mute;
use crate::{Stage, Test, ms, secs, settle};

#[tokio::test(start_paused = true)]
async fn the_holder_is_told_at_once_and_the_next_has_a_greater_token() -> Test {
    let stage = Stage::new();
    assert!(!stage.rival.force_release("k").await?, "nobody holds it");
    let guard = stage.locks.lock("k").await?;
    let next = tokio::spawn(stage.rival.lock("k").acquire());
    settle().await;
    assert!(stage.rival.force_release("k").await?);
    let lost = timeout(ms(1), guard.lost()).await?;
    assert_eq!((lost.reason(), lost.token()), (LossReason::Taken, guard.token()));
    let next = timeout(ms(1), next).await???;
    assert!(next.token() > guard.token() && !guard.is_held());
    assert!(guard.release().await.unwrap_err().is_not_held());
    assert!(next.is_held(), "the farewell of the old holder is not its own");
    next.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_in_the_same_process_come_after_the_others() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").linger(secs(5)).await?;
    let same = tokio::spawn(stage.locks.lock("k").acquire());
    settle().await;
    let other = tokio::spawn(stage.rival.lock("k").acquire());
    settle().await;
    assert!(stage.rival.force_release("k").await?);
    let other = timeout(ms(1), other).await???;
    settle().await;
    assert!(!same.is_finished() && !guard.is_held());
    other.release().await?;
    let same = timeout(ms(1), same).await???;
    assert!(same.token() > guard.token());
    drop(guard);
    assert!(same.is_held());
    same.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_work_under_run_is_stopped() -> Test {
    let stage = Stage::new();
    let rival = stage.rival.clone();
    let work = async |_| {
        assert!(rival.force_release("k").await.expect("a store that can"));
        std::future::pending::<()>().await;
    };
    let ended = timeout(secs(1), stage.locks.lock("k").run(work)).await?;
    assert!(
        matches!(ended, Err(lock_core::error::RunError::Lost(lost)) if lost.reason() == LossReason::Taken)
    );
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_or_does_not_answer_is_an_error_of_its_own() -> Test {
    let cannot =
        LockClient::with_backend(Mute::new(|capabilities| capabilities.force_release = false));
    let error = cannot.force_release("order:42").await.unwrap_err();
    assert!(error.is_unsupported() && !error.is_unavailable());
    let text = error.to_string();
    assert!(text.contains("order:42") && text.contains("force_release"), "{text}");
    let silent =
        LockClient::with_backend(Mute::new(|capabilities| capabilities.force_release = true));
    let error = silent.force_release("order:42").await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("order:42"), "{error}");
    assert_eq!(error.key(), Some(&Key::new("order:42")?));
    let error = silent.force_release("").await.unwrap_err();
    assert!(matches!(error, OperatorError::Key(_)));
    Ok(())
}
