//! F06, F14 and F40: servers that are killed, that hang, and whose clocks jump.

use lock_core::error::LossReason;

use super::*;
use crate::checker::Checker;
use crate::scene::layout::Keeps;

/// F06 (V1, V2, V6): those servers are killed that serve the key, and started again at once. The
/// holder is told if the lock went with them, and no token is given a second time.
pub(crate) async fn a_restart_keeps_a_hold_or_tells_the_holder_and_takes_no_token_back(
    stage: &mut Stage<'_>,
) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.holder(Tempo::Patient).await;
    let other = stage.client(Tempo::Patient).await;
    let (holder, rival) = (history.actor("holder", &locks), history.actor("rival", &other));
    let (guard, _) = holder.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a free key");
    let scope = stage.scope.clone();
    let layout = stage.alone();
    let serving = layout.serving(&scope, &key);
    serving.iter().for_each(|server| layout.kill(*server));
    layout.restart(&serving);
    let keeps = layout.kind().keeps;
    let before = locks.stats().renewals;
    // Answered after the restart, or told.
    let answered = || locks.stats().renewals > before || !guard.is_held();
    eventually("a renewal, or the word", answered).await;
    let is_kept = guard.is_held();
    assert!(!is_kept || keeps != Keeps::Nothing, "nobody knows of the hold any more");
    let token = guard.token();
    if is_kept {
        assert!(holder.write(&guard).await);
        holder.release(guard).await.expect("a release");
    } else {
        let cause = holder.lost(&guard).await.reason();
        assert!(keeps != Keeps::Everything || cause == LossReason::Expired, "{cause:?}");
        assert!(holder.release(guard).await.expect_err("it was lost").is_not_held());
    }
    let (next, _) = rival.acquire(&key, ms(30_000)).await;
    let next = next.expect("a grant");
    assert!(next.token() > token);
    assert!(rival.write(&next).await);
    rival.release(next).await.expect("a release");
    history.check(Checker::new());
    drop((holder, rival));
    stage.nothing_left([locks, other]).await;
}

/// F06 (V2, V3, V4, V8): while nobody serves the key, its holder is told by its own clock, and who
/// wants it is told within its budget; when the servers are back, it is granted with a higher token.
pub(crate) async fn a_holder_is_told_while_its_servers_are_away_and_has_the_key_when_they_are_back(
    stage: &mut Stage<'_>,
) {
    let key = stage.key("k");
    let locks = stage.client(Tempo::Brisk).await;
    let guard = locks.lock(&key).await.expect("a free key");
    let within_ms = stage.times(Tempo::Brisk).lost_within;
    let scope = stage.scope.clone();
    let layout = stage.alone();
    let serving = layout.serving(&scope, &key);
    // First: one that takes over within the lease loses nobody.
    let away = [layout.successors(&serving), serving].concat();
    away.iter().for_each(|server| layout.kill(*server));
    let began = Stopwatch::start();
    within("the loss", guard.lost()).await;
    assert!(began.own() < within_ms + LATE, "{:?}", began.elapsed());
    let asked = Stopwatch::start();
    let error = locks.lock(&key).wait(ms(300)).await.expect_err("nobody serves it");
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert!(asked.own() < ms(300) + LATE, "{:?}", asked.elapsed());
    layout.restart(&away);
    let next = locks.lock(&key).wait(ms(30_000)).await.expect("a grant");
    assert!(next.token() > guard.token());
    assert!(guard.release().await.expect_err("it was lost").is_not_held());
    next.release().await.expect("a release");
    stage.nothing_left([locks]).await;
}

/// F14 (V4, V6, V8): while the servers hang for twice the bound of a request, acquires and releases
/// end within theirs; what is carried out late is withdrawn.
pub(crate) async fn servers_that_hang_bound_nobody_and_leave_no_late_grant(stage: &mut Stage<'_>) {
    let (keys, history) = (["a", "b", "held"].map(|name| stage.key(name)), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let held = locks.lock(&keys[2]).await.expect("a free key");
    if !locks.capabilities().fifo {
        // A quorum grants by a majority. By now the others have joined.
        eventually("a renewal by all", || locks.stats().renewals >= 1).await;
    }
    let (first, second) = (history.actor("first", &locks), history.actor("second", &locks));
    let scope = stage.scope.clone();
    let layout = stage.alone();
    let serving = layout.serving(&scope, &keys[0]);
    serving.iter().for_each(|server| layout.pause(*server));
    let frozen = Stopwatch::start();
    let release = tokio::spawn(held.release());
    let (one, other) =
        tokio::join!(first.acquire(&keys[0], OPERATION), second.acquire(&keys[1], ms(300)),);
    for (answer, _) in [one, other] {
        let error = answer.map(|guard| guard.token()).expect_err("nobody answers");
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    }
    let error = within("the release", release).await.expect("no panic").expect_err("no answer");
    assert!(error.is_unavailable() && frozen.own() < OPERATION + SLACK, "{error}");
    // The bound of a request for the second time.
    assert!(second.acquire(&keys[1], OPERATION).await.0.is_err());
    serving.iter().for_each(|server| layout.resume(*server));
    eventually("no key is busy", || locks.stats().keys == 0).await;
    for key in &keys {
        let guard = locks.lock(key).await.expect("a free key");
        guard.release().await.expect("a release");
    }
    history.check(Checker::new());
    drop((first, second));
    stage.nothing_left([locks]).await;
}

/// F14 (V1, V2, V3): servers that hang past the lease: who held is told by its own clock, and nobody
/// else is granted before.
pub(crate) async fn a_holder_is_told_while_its_servers_hang(stage: &mut Stage<'_>) {
    let (key, history) = (stage.key("k"), stage.history());
    let (locks, other) = (stage.client(Tempo::Brisk).await, stage.client(Tempo::Patient).await);
    let (holder, rival) = (history.actor("holder", &locks), history.actor("rival", &other));
    let (guard, _) = holder.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a free key");
    let waiting = tokio::spawn(granted_once_lost(&rival, &key, &guard));
    stage.in_line(&key, 1).await;
    let within_ms = stage.times(Tempo::Brisk).lost_within;
    let scope = stage.scope.clone();
    let layout = stage.alone();
    let serving = layout.serving(&scope, &key);
    serving.iter().for_each(|server| layout.pause(*server));
    let began = Stopwatch::start();
    holder.lost(&guard).await;
    assert!(began.own() < within_ms + LATE, "{:?}", began.elapsed());
    assert!(!waiting.is_finished());
    serving.iter().for_each(|server| layout.resume(*server));
    assert!(holder.release(guard).await.expect_err("it was lost").is_not_held());
    let next = within("the rival", waiting).await.expect("no panic").expect("a grant");
    rival.release(next).await.expect("a release");
    history.check(Checker::new());
    drop((holder, rival));
    stage.nothing_left([locks, other]).await;
}

/// F16, F40 (V1, V2, V4, V6): the clocks of the servers go back and forth by a millisecond, a second
/// and an hour between two grants: tokens grow, and nobody waits longer than the budget.
pub(crate) async fn tokens_grow_whatever_the_clocks_of_the_servers_do(stage: &mut Stage<'_>) {
    let (key, history) = (stage.key("k"), stage.history());
    let (locks, other) = (stage.client(Tempo::Steady).await, stage.client(Tempo::Steady).await);
    let (first, second) = (history.actor("first", &locks), history.actor("second", &other));
    let mut last = None;
    for by_ms in [-1, -1_000, -3_600_000, 3_600_000, 1_000, 1] {
        let (guard, _) = first.acquire(&key, ms(9_000)).await;
        let guard = guard.expect("a grant");
        assert!(last < Some(guard.token()), "before {by_ms} ms");
        assert!(first.write(&guard).await);
        let token = guard.token();
        let waiting = tokio::spawn({
            let (second, key) = (second.clone(), key.clone());
            async move { second.acquire(&key, ms(9_000)).await.0 }
        });
        stage.in_line(&key, 1).await;
        stage.alone().skew_clock(by_ms);
        // It may have been lost to the clock.
        let _ = first.release(guard).await;
        let next = within("the next", waiting).await.expect("no panic");
        let next = next.unwrap_or_else(|error| panic!("after {by_ms} ms: {error}"));
        assert!(
            next.token() > token,
            "a finding of safety: after {by_ms} ms: {} after {token}",
            next.token()
        );
        assert!(second.write(&next).await);
        last = Some(next.token());
        let _ = second.release(next).await;
    }
    history.check(Checker::new());
    drop((first, second));
    stage.nothing_left([locks, other]).await;
}
