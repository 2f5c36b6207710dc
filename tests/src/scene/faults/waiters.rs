//! F04: waiters that are stopped and killed.

use std::time::Duration;

use super::*;
use crate::checker::Checker;

/// `dead` waiters stand in line, are killed or frozen, and a live one comes behind them. How long
/// it takes from the release to its grant.
async fn delay_behind(stage: &Stage<'_>, dead: usize, is_killed: bool) -> Duration {
    let (key, history) = (stage.key(&format!("{dead}")), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let holder = history.actor("holder", &locks);
    let (guard, _) = holder.acquire(&key, ms(9_000)).await;
    let mut crowd = stage.remote(&history, "crowd", Tempo::Brisk);
    crowd.ask(&format!("flood {key} {dead} 60000")).await.expect_success();
    stage.in_line(&key, dead).await;
    let other = stage.client(Tempo::Patient).await;
    let next = history.actor("next", &other);
    let waiting = tokio::spawn({
        let (next, key) = (next.clone(), key.clone());
        async move { next.acquire(&key, ms(10_000)).await.0 }
    });
    stage.in_line(&key, dead + 1).await;
    match is_killed {
        true => {
            crowd.kill();
            crowd.line.closed().await;
        }
        false => crowd.freeze(),
    }
    let began = Stopwatch::start();
    holder.release(guard.expect("a free key")).await.expect("a release");
    let guard = waiting.await.expect("no panic").expect("a grant");
    let took = began.own();
    next.release(guard).await.expect("a release");
    crowd.kill();
    assert_eq!(history.check(Checker::new().exclusive()).grants, 2);
    drop((holder, next));
    stage.gone(locks).await;
    stage.gone(other).await;
    took
}

/// F04, and "a fair queue blocked by a dead head" (V2, V4, V5, V6): killed waiters are skipped at
/// once, or cost one end of a session together, however many they are and however long the lease.
pub(crate) async fn killed_waiters_are_skipped_however_many_they_are(stage: &mut Stage<'_>) {
    for dead in [1, 40] {
        let took = delay_behind(stage, dead, true).await;
        let bound = stage.times(Tempo::Brisk).skipped_within + ms(1_000);
        assert!(took < bound, "{dead} dead waiters: {took:?}");
    }
    stage.nothing_left_of_the_dead().await;
}

/// F04 (V2, V4, V5, V6): the same of waiters that are stopped, whose connections still listen.
pub(crate) async fn frozen_waiters_cost_one_deadline_together(stage: &mut Stage<'_>) {
    let took = delay_behind(stage, 20, false).await;
    assert!(took < stage.times(Tempo::Brisk).handed_within + SLACK, "{took:?}");
    stage.nothing_left_of_the_dead().await;
}

/// F04 (V1, V2, V6): a waiter that was stopped when the key fell to it, and goes on after that grant
/// has ended, does not take it for its own.
pub(crate) async fn a_thawed_waiter_does_not_use_a_grant_that_has_ended(stage: &mut Stage<'_>) {
    let (key, history) = (stage.key("k"), stage.history());
    let locks = stage.client(Tempo::Patient).await;
    let other = stage.client(Tempo::Patient).await;
    let (first, second) = (history.actor("first", &locks), history.actor("second", &other));
    let (guard, _) = first.acquire(&key, ms(9_000)).await;
    let mut frozen = stage.remote(&history, "frozen", Tempo::Brisk);
    frozen.send(&format!("acquire {key} 20000"));
    stage.in_line(&key, 1).await;
    frozen.freeze();
    first.release(guard.expect("a free key")).await.expect("a release");
    let (guard, _) = second.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a grant");
    frozen.thaw();
    assert!(second.write(&guard).await);
    stage.in_line(&key, 1).await;
    let token = guard.token().get();
    second.release(guard).await.expect("a release");
    assert!(frozen.reply().await.token() > token);
    assert!(frozen.ask("write").await.accepted());
    frozen.ask("release").await.expect_success();
    frozen.send("exit");
    frozen.ended().await;
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.grants, report.writes_refused), (3, 0));
    drop((first, second));
    stage.nothing_left([locks, other]).await;
}
