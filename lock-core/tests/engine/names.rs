//! The name of a claim at the store.

use lock_core::LockClient;
use tokio::time::sleep;

use crate::{Stage, Test, ms, secs, settle};

#[tokio::test(start_paused = true)]
async fn a_claim_has_the_name_of_the_waiter_that_opened_it() -> Test {
    let stage = Stage::new();
    let named = |name| stage.locks.lock("k").name(name);
    let first = named("first").await?;
    let second = tokio::spawn(named("second").acquire());
    let third = tokio::spawn(stage.locks.lock("k").acquire());
    settle().await;
    first.release().await?;
    let second = second.await??;
    // Asked for the key, the process gives it back, and those in line open a claim of their own.
    assert!(stage.rival.request_revoke("k").await?);
    second.revoke_requested().await;
    second.release().await?;
    let third = third.await??;
    let names: Vec<_> = stage.script.claims().into_iter().map(|(_, terms)| terms.name).collect();
    assert_eq!(names, [Some("first"), None]);
    third.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_out_of_bounds_is_refused_before_anything_is_sent() -> Test {
    const LONG: &str = match std::str::from_utf8(&[b'n'; lock_core::limits::NAME_BYTES_MAX + 1]) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    };
    let stage = Stage::new();
    for name in [LONG, "two\nlines"] {
        let error = stage.locks.lock("order:42").name(name).await.unwrap_err();
        assert!(error.is_rejected() && !error.is_retryable());
        assert_eq!(error.key().map(|key| key.as_str()), Some("order:42"));
        let text = error.to_string();
        assert!(text.contains("order:42") && text.contains("128"), "{text}");
    }
    assert!(stage.script.claims().is_empty());
    stage.locks.lock("order:42").name(&LONG[1..]).await?.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_inspection_says_who_holds_a_key_and_who_waits_for_it() -> Test {
    let stage = Stage::new();
    let named = LockClient::builder_with(stage.store.clone()).label("checkout@web-3");
    let named = named.connect().await?;
    let guard = named.lock("k").name("pay an order").await?;
    let waiting = tokio::spawn(stage.rival.lock("k").acquire());
    sleep(secs(3)).await;
    let seen = stage.rival.inspect("k").await?;
    let held_for = seen.holders[0].held_for.expect("the store knows");
    assert!(held_for >= secs(3) && held_for < secs(3) + ms(1), "{held_for:?}");
    let [holder, waiter] = [&seen.holders[0].about, &seen.waiters[0].about];
    assert_eq!(holder.as_deref(), Some("checkout@web-3 name=pay an order"));
    let here = format!(" pid={}", std::process::id());
    assert!(waiter.as_deref().is_some_and(|it| it.starts_with("host=") && it.ends_with(&here)));
    guard.release().await?;
    waiting.await??.release().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// On a clock that goes on: many keys, so that their rows cannot all be made at one instant.
#[tokio::test]
async fn the_busy_keys_are_measured_at_one_instant() -> Test {
    let stage = Stage::new();
    let mut guards = Vec::new();
    for i in 0..1_000 {
        guards.push(stage.rival.lock(format!("k:{i}")).await?);
    }
    let mut busy = stage.rival.busy_keys();
    busy.sort_unstable_by_key(|busy| std::cmp::Reverse(busy.guards[0].held_for));
    // The sooner it was taken, the longer it is held; the store counts its tokens up.
    assert!(busy.is_sorted_by_key(|busy| busy.guards[0].token));
    drop(guards);
    stage.is_clean(secs(5)).await;
    Ok(())
}
