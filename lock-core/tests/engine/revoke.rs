//! Asking a holder to give the key up.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use lock_core::error::OperatorError;
use lock_core::{Key, LockClient};
use tokio::time::timeout;

use crate::mute::Mute;
use crate::{Stage, Test, ms, secs, settle};

/// One look at a future.
fn is_ready(future: impl Future<Output = ()>) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_by_a_push_and_stays_the_holder() -> Test {
    let stage = Stage::new();
    assert!(!stage.rival.request_revoke("k").await?, "nobody holds it");
    let guard = stage.locks.lock("k").await?;
    let handle = guard.handle();
    let told = tokio::spawn(handle.revoke_requested());
    settle().await;
    assert!(!told.is_finished() && !guard.is_revoke_requested());
    assert!(stage.rival.request_revoke("k").await?);
    timeout(ms(1), told).await??;
    assert!(guard.is_revoke_requested() && handle.is_revoke_requested());
    assert!(is_ready(guard.revoke_requested()), "whoever looks later learns it at once");
    assert!(guard.is_held() && stage.rival.inspect("k").await?.holder().is_some());
    assert!(stage.rival.request_revoke("k").await?, "asking again does no harm");
    guard.release().await?;
    assert!(!handle.is_revoke_requested());
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_asked_is_next_and_those_of_the_holders_process_come_after() -> Test {
    for by_drop in [false, true] {
        let stage = Stage::new();
        let guard = stage.locks.lock("k").linger(secs(5)).await?;
        let waiting = tokio::spawn(stage.locks.lock("k").acquire());
        settle().await;
        assert!(stage.rival.request_revoke("k").await?);
        guard.revoke_requested().await;
        let asked = tokio::spawn(stage.rival.lock("k").acquire());
        settle().await;
        if by_drop {
            drop(guard);
        } else {
            guard.release().await?;
        }
        let asked = timeout(ms(1), asked).await???;
        settle().await;
        assert!(!waiting.is_finished(), "handed on inside the process that was asked");
        assert!(!asked.is_revoke_requested(), "the next holder was not asked");
        asked.release().await?;
        let last = timeout(ms(1), waiting).await???;
        assert!(!last.is_revoke_requested());
        last.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_look_that_was_dropped_takes_nothing_away() -> Test {
    let stage = Stage::new();
    let guard = stage.locks.lock("k").await?;
    assert!(!is_ready(guard.revoke_requested()));
    let before = guard.revoke_requested();
    assert!(stage.rival.request_revoke("k").await?);
    settle().await;
    assert!(is_ready(before.clone()) && is_ready(before));
    guard.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_over_is_never_asked() -> Test {
    for by_release in [true, false] {
        let stage = Stage::new();
        let guard = stage.locks.lock("k").hold_limit(secs(1)).await?;
        let handle = guard.handle();
        let mut told = handle.revoke_requested();
        assert!(timeout(ms(1), &mut told).await.is_err());
        if by_release {
            guard.release().await?;
        } else {
            guard.lost().await;
        }
        let next = stage.locks.lock("k").await?;
        assert!(stage.rival.request_revoke("k").await?);
        next.revoke_requested().await;
        assert!(timeout(secs(5), told).await.is_err() && !handle.is_revoke_requested());
        next.release().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_work_under_run_is_not_stopped_by_a_request() -> Test {
    let stage = Stage::new();
    let rival = stage.rival.clone();
    let work = async |handle: lock_core::LockHandle| {
        assert!(rival.request_revoke("k").await.expect("a store that can"));
        handle.revoke_requested().await;
        tokio::time::sleep(secs(60)).await;
        7
    };
    assert_eq!(stage.locks.lock("k").run(work).await?, 7);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_ask_or_does_not_answer_is_an_error_of_its_own() -> Test {
    let cannot =
        LockClient::with_backend(Mute::new(|capabilities| capabilities.revocation = false));
    let error = cannot.request_revoke("order:42").await.unwrap_err();
    assert!(error.is_unsupported() && !error.is_unavailable());
    let text = error.to_string();
    assert!(text.contains("order:42") && text.contains("revocation"), "{text}");
    let silent = LockClient::with_backend(Mute::new(|capabilities| capabilities.revocation = true));
    let error = silent.request_revoke("order:42").await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("order:42"), "{error}");
    assert_eq!(error.key(), Some(&Key::new("order:42")?));
    assert!(matches!(silent.request_revoke("").await.unwrap_err(), OperatorError::Key(_)));
    Ok(())
}
