//! F29, F33 and F35: locks that are deleted by hand, keys that are strange, keys that are many.

use std::time::Instant;

use lock_core::AcquireError;
use lock_core::error::{KeyError, LossReason, Rejection};

use super::*;
use crate::checker::Checker;
use crate::strange::strange_keys;

/// F29 (V1, V2, V5, V6): the holder is told, the next in line has the key under a higher token, and
/// what the first still writes is refused.
pub(crate) async fn a_lock_that_is_deleted_by_hand_is_told_and_passes_on(stage: &mut Stage<'_>) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Steady).await;
    let other = stage.client(Tempo::Steady).await;
    let (holder, waiter) = (history.actor("holder", &locks), history.actor("waiter", &other));
    let (guard, _) = holder.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a free key");
    let waiting = tokio::spawn({
        let (waiter, key) = (waiter.clone(), key.clone());
        async move { waiter.acquire(&key, ms(9_000)).await.0 }
    });
    stage.in_line(&key, 1).await;
    stage.layout().delete(&stage.scope, &key);
    assert_eq!(holder.lost(&guard).await.reason(), LossReason::Taken);
    assert!(!guard.is_held());
    let next = within("the waiter", waiting).await.expect("no panic").expect("a grant");
    assert!(next.token() > guard.token());
    assert!(waiter.write(&next).await && !holder.write(&guard).await);
    assert!(holder.release(guard).await.expect_err("it was lost").is_not_held());
    waiter.release(next).await.expect("a release");
    // Not `exclusive`: who deletes the lock of a holder makes two for a moment.
    history.check(Checker::new());
    drop((holder, waiter));
    stage.nothing_left([locks, other]).await;
}

/// F33 (V6): each strange key is a lock of its own.
pub(crate) async fn strange_keys_are_locks_of_their_own(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let other = stage.client(Tempo::Patient).await;
    let keys = strange_keys();
    let mut guards = Vec::new();
    for key in &keys {
        let guard = locks.lock(key).try_acquire().await.expect("an answer");
        guards.push(guard.unwrap_or_else(|| panic!("{key} is the lock of another key")));
    }
    for key in &keys {
        assert!(other.lock(key).try_acquire().await.expect("an answer").is_none(), "{key}");
    }
    for guard in guards {
        guard.release().await.expect("a release");
    }
    for key in &keys {
        let guard = other.lock(key).await.expect("a free key");
        guard.release().await.expect("a release");
    }
    stage.nothing_left([locks, other]).await;
}

/// F33 (V6): a key below a prefix is that of all clients of the prefix, and of nobody else.
pub(crate) async fn clients_of_two_prefixes_have_no_key_in_common(stage: &mut Stage<'_>) {
    let one = stage.client_below("a").await;
    let again = stage.client_below("a").await;
    let other = stage.client_below("b").await;
    let none = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = one.lock(&key).await.expect("a free key");
    assert_eq!(held.key().as_str(), key);
    for locks in [&other, &none] {
        let guard = locks.lock(&key).try_acquire().await.expect("an answer");
        guard.expect("another key").release().await.expect("a release");
        assert_eq!(locks.inspect(&key).await.expect("an answer").holders.len(), 0);
    }
    assert!(again.lock(&key).try_acquire().await.expect("an answer").is_none(), "the same key");
    assert_eq!(again.inspect(&key).await.expect("an answer").holders.len(), 1);
    let placed = none.inspect(format!("a:{key}")).await.expect("an answer");
    assert_eq!(placed.holders.len(), 1, "the name that the store has");
    held.release().await.expect("a release");
    again.lock(&key).await.expect("a free key").release().await.expect("a release");
    stage.nothing_left([one, again, other, none]).await;
}

/// F33 (V8): who looks at a key is told the labels of those who hold it and wait for it.
pub(crate) async fn an_inspection_says_who_holds_a_key_and_who_waits(stage: &mut Stage<'_>) {
    let web = stage.client_called("checkout@web 3").await;
    let cron = stage.client(Tempo::Patient).await;
    let (key, began) = (stage.key("k"), Instant::now());
    let held = web.lock(&key).await.expect("a free key");
    let waiting = tokio::spawn(cron.lock(&key).acquire());
    stage.in_line(&key, 1).await;
    let pid = format!(" pid={}", std::process::id());
    for asked in [&web, &cron] {
        let seen = asked.inspect(&key).await.expect("an inspection");
        let [holder, waiter] = [&seen.holders[0].about, &seen.waiters[0].about];
        assert_eq!(holder.as_deref(), Some("checkout@web 3"));
        let waiter = waiter.as_deref().unwrap_or_default();
        assert!(waiter.starts_with("host=") && waiter.ends_with(&pid), "{waiter}");
    }
    // The store has half a second for its answer, so a busy machine may take more than one try.
    let named = async {
        loop {
            let error = cron.lock(&key).wait(ms(1_000)).await.expect_err("it is held");
            if let AcquireError::Timeout(timeout) = &error
                && let Some(holder) = timeout.holder()
            {
                return (holder.clone(), error.to_string());
            }
        }
    };
    let (holder, text) = within("the name of the holder", named).await;
    assert_eq!(holder.about.as_deref(), Some("checkout@web 3"));
    assert!(text.contains("; the holder is checkout@web 3"), "{text}");
    // It was asked half a second after the wait began, and a database counts milliseconds.
    let may_be = ms(400)..began.elapsed() + ms(100);
    assert!(holder.held_for.is_none_or(|time| may_be.contains(&time)), "{holder:?}");
    held.release().await.expect("a release");
    let next = within("the waiter", waiting).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
    stage.nothing_left([web, cron]).await;
}

/// F33 (V8): a key without a byte, or of 1 MB, is refused with an error of a sane length.
pub(crate) async fn empty_and_enormous_keys_are_refused_and_nothing_is_sent(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let sent = locks.stats().store_requests;
    let refused = [("", 1, 0), ("k", 1 << 20, 1 << 20), ("k", 513, 513), ("😀", 43, 172)];
    for (text, times, length) in refused {
        let error = locks.lock(text.repeat(times)).await.expect_err("a refusal");
        let is_told = match &error {
            AcquireError::Rejected(Rejection::Key(KeyError::Empty)) => length == 0,
            // The encoded key may be longer.
            AcquireError::Rejected(Rejection::Key(KeyError::TooLong { bytes, .. })) => {
                *bytes >= length
            }
            _ => false,
        };
        assert!(is_told && !error.is_retryable() && error.to_string().len() < 300, "{error}");
    }
    assert_eq!(locks.stats().store_requests, sent);
    stage.nothing_left([locks]).await;
}

/// F35 (V6): keys that are used once each leave nothing in the client nor at the servers.
pub(crate) async fn many_keys_used_once_each_leave_nothing(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let mut tasks = Vec::new();
    for task in 0..50 {
        let (locks, key) = (locks.locks.clone(), stage.key(&format!("{task}")));
        tasks.push(tokio::spawn(async move {
            for n in 0..40 {
                // All at once is more than some servers serve in time on a busy machine.
                let acquire = locks.lock(format!("{key}-{n}")).retries(5).acquire();
                given_back(acquire.await.expect("a free key")).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(locks.stats().acquired, 2_000);
    stage.nothing_left([locks]).await;
}
