//! Having the key taken away.

use lock_core::error::{LossReason, OperatorError, Rejection};
use lock_core::{AcquireError, Key, LockClient, Mode};
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

/// The holder may be of this very client: it loses the key as those of others do, and who waits in
/// this process or another stays where it stands.
#[tokio::test(start_paused = true)]
async fn who_takes_the_key_has_it_ahead_of_the_line_and_of_its_own_process() -> Test {
    for mine in [true, false] {
        let stage = Stage::new();
        let holder = if mine { &stage.locks } else { &stage.rival };
        let guard = holder.lock("k").await?;
        let turn = |client: &LockClient| {
            let waiting = client.lock("k").acquire();
            tokio::spawn(async move {
                let guard = waiting.await?;
                let token = guard.token();
                guard.release().await.expect("it is held");
                Ok::<_, AcquireError>(token)
            })
        };
        let same = turn(&stage.locks);
        settle().await;
        let other = turn(&stage.rival);
        settle().await;
        let taken = timeout(ms(1), stage.locks.lock("k").force_acquire()).await??;
        let lost = timeout(ms(1), guard.lost()).await?;
        assert_eq!((lost.reason(), lost.token()), (LossReason::Taken, guard.token()));
        settle().await;
        assert!(taken.token() > guard.token() && !same.is_finished() && !other.is_finished());
        assert!(guard.release().await.unwrap_err().is_not_held());
        assert!(taken.is_held(), "the farewell of the old holder is not its own");
        let token = taken.token();
        taken.release().await?;
        for next in [same, other] {
            assert!(timeout(secs(1), next).await??? > token);
        }
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_who_take_the_key_by_force_have_it_one_after_the_other() -> Test {
    let stage = Stage::new();
    let readers = [stage.locks.lock("k").shared().await?, stage.rival.lock("k").shared().await?];
    let first = stage.locks.lock("k").force_acquire().await?;
    for reader in &readers {
        assert_eq!(timeout(ms(1), reader.lost()).await?.reason(), LossReason::Taken);
    }
    let second = stage.locks.lock("k").force_acquire().await?;
    assert_eq!(timeout(ms(1), first.lost()).await?.reason(), LossReason::Taken);
    assert!(second.token() > first.token());
    assert!(stage.locks.lock("k").try_acquire().await?.is_none());
    second.release().await?;
    drop((readers, first));
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn taking_by_force_is_refused_where_it_cannot_be_had_and_for_who_shares() -> Test {
    let cannot =
        LockClient::with_backend(Mute::new(|capabilities| capabilities.force_acquire = false));
    let error = cannot.lock("order:42").force_acquire().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("order:42") && text.contains("force_acquire"), "{text}");
    let locks = LockClient::memory();
    let error = locks.lock("order:42").permits(2).force_acquire().await.unwrap_err();
    let asked = Mode::Permit { of: 2 };
    let AcquireError::Rejected(Rejection::Forced { key, asked: said }) = &error else {
        panic!("{error}")
    };
    assert_eq!((key.as_str(), *said), ("order:42", asked));
    assert!(error.to_string().contains("order:42"), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_called_under_a_hold_takes_the_key_from_that_too() -> Test {
    let stage = Stage::new();
    let outer = stage.locks.lock("k").await?;
    let inner = outer.scope(stage.locks.lock("k").force_acquire()).await?;
    assert!(inner.token() > outer.token());
    let lost = timeout(ms(1), outer.lost()).await?;
    assert_eq!((lost.reason(), lost.token()), (LossReason::Taken, outer.token()));
    inner.release().await?;
    drop(outer);
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// It would be kept for nobody, as a client's default may say.
#[tokio::test(start_paused = true)]
async fn what_was_taken_by_force_does_not_linger() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").linger(secs(30)).force_acquire().await?;
    guard.release().await?;
    let free = stage.locks.lock("k").try_acquire().await?;
    free.expect("a free key").release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}
