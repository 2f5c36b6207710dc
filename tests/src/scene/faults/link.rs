//! F10, F25 and F43: links that are silent, slow or cut.

use std::time::Duration;

use lock_core::error::{LossReason, ReleaseError};

use super::*;
use crate::checker::Checker;

/// F10 (V1, V2, V3, V6): whichever way the silence is, a holder is told at the end of its lease,
/// before the store grants the key to another.
pub(crate) async fn a_holder_behind_a_black_hole_is_told_by_its_own_clock_before_another_is_granted(
    stage: &mut Stage<'_>,
) {
    let stage = &*stage;
    tokio::join!(
        told_in_silence(stage, "both", &[Direction::ToServer, Direction::ToClient]),
        told_in_silence(stage, "there", &[Direction::ToServer]),
        told_in_silence(stage, "back", &[Direction::ToClient]),
    );
    stage.nothing_left([]).await;
}

async fn told_in_silence(stage: &Stage<'_>, name: &str, silent: &[Direction]) {
    let (key, history) = (stage.key(name), stage.history());
    let locks = stage.holder(Tempo::Brisk).await;
    let other = stage.client(Tempo::Patient).await;
    let (holder, rival) = (history.actor("holder", &locks), history.actor("rival", &other));
    let (guard, _) = holder.acquire(&key, ms(9_000)).await;
    let guard = guard.expect("a free key");
    for direction in silent {
        locks.line.set(*direction, Flow::BlackHole);
    }
    let began = Stopwatch::start();
    let waiting = tokio::spawn(granted_once_lost(&rival, &key, &guard));
    let times = stage.times(Tempo::Brisk);
    let lost = holder.lost(&guard).await;
    assert!(began.own() < times.lost_within + SLACK, "{:?}", began.elapsed());
    assert_eq!((lost.reason(), lost.token()), (LossReason::Expired, guard.token()));
    assert!(!guard.is_held());
    let next = within("the rival", waiting).await.expect("no panic").expect("a grant");
    // One that is heard goes on to ask for as long as it hopes for an answer, and what it has lives
    // for so much longer.
    let is_heard = !silent.contains(&Direction::ToServer);
    let hopes = if is_heard { times.session.max(times.lost_within) } else { Duration::ZERO };
    let freed_within = hopes + times.freed_within;
    assert!(began.own() < freed_within + SLACK, "{name}: {:?}", began.elapsed());
    assert!(next.token() > guard.token());
    assert!(rival.write(&next).await && !holder.write(&guard).await);
    assert!(holder.release(guard).await.expect_err("it was lost").is_not_held());
    rival.release(next).await.expect("a release");
    assert_eq!(history.check(Checker::new()).writes_refused, 1);
    locks.line.resume();
    drop((holder, rival));
    stage.gone(locks).await;
    stage.gone(other).await;
}

/// F10 (V6, V8): it ends within the operation's 2 s and says that its outcome is not known; it goes
/// on, and frees the key long before the lease ends.
pub(crate) async fn a_release_into_a_black_hole_says_that_it_does_not_know_and_goes_on(
    stage: &mut Stage<'_>,
) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let guard = locks.lock(&key).await.expect("a free key");
    locks.line.black_hole();
    let began = Stopwatch::start();
    let error = guard.release().await.expect_err("no answer");
    assert!(began.own() < OPERATION + SLACK, "{:?}", began.elapsed());
    assert!(matches!(error, ReleaseError::Unavailable(_)), "{error:?}");
    assert!(!stage.is_free(&key));
    locks.line.resume();
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([locks]).await;
}

/// F10, F14 (V4, V6, V8): it ends with its budget, as `Unavailable` and not as `Timeout`; when the
/// link is back, its late grant is withdrawn.
pub(crate) async fn an_acquire_into_a_black_hole_ends_with_its_budget_and_leaves_no_grant(
    stage: &mut Stage<'_>,
) {
    for silent in [Direction::ToServer, Direction::ToClient] {
        let history = stage.history();
        let locks = stage.client(Tempo::Patient).await;
        let key = stage.key(&format!("{silent:?}"));
        let actor = history.actor("a", &locks);
        locks.line.set(silent, Flow::BlackHole);
        let (answer, _) = actor.acquire(&key, ms(300)).await;
        let error = answer.expect_err("no answer");
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
        locks.line.resume();
        eventually("no key is busy", || locks.stats().keys == 0).await;
        stage.the_next_one_proceeds(&key).await;
        history.check(Checker::new());
        drop(actor);
        stage.gone(locks).await;
    }
    stage.nothing_left([]).await;
}

/// F10 (V3, V6): round trips of 80 ms, and the several that a connection needs at first, cost no
/// hold of a short lease.
pub(crate) async fn a_slow_link_is_not_a_broken_one(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Steady).await;
    locks.line.set(Direction::ToServer, Flow::Delay(ms(40)));
    locks.line.set(Direction::ToClient, Flow::Delay(ms(40)));
    // Each request, and each step of a new connection, takes so much longer beside what a busy machine
    // adds.
    let [steady, patient] = [Tempo::Steady, Tempo::Patient].map(|tempo| stage.times(tempo).lease);
    let lease = (steady * 3).min(patient);
    let guard = locks.lock(stage.key("k")).lease(lease).await.expect("a free key");
    // Past the first lease.
    eventually("renewals", || locks.stats().renewals >= 4 || !guard.is_held()).await;
    assert!(guard.is_held(), "each renewal has {:?}", lease / 6);
    guard.release().await.expect("a release");
    locks.line.resume();
    stage.nothing_left([locks]).await;
}

/// F25, and "a waiter that sleeps to the TTL after a missed push" (V5, V6): it finds its grant by
/// asking again.
pub(crate) async fn a_waiter_whose_push_is_lost_is_granted_by_its_recheck(stage: &mut Stage<'_>) {
    let waiter = stage.client(Tempo::Steady).await;
    let holder = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    waiter.line.drop_pushes(true);
    let lost = || waiter.line.counted(|seen| seen.pushes_dropped);
    // On a busy machine a waiter may ask just as it is granted, and needs no push.
    for round in 1.. {
        let held = holder.lock(&key).await.expect("a free key");
        let waiting = tokio::spawn(waiter.lock(&key).acquire());
        stage.in_line(&key, 1).await;
        let began = Stopwatch::start();
        held.release().await.expect("a release");
        let guard = waiting.await.expect("no panic").expect("a grant");
        let recheck = stage.times(Tempo::Steady).recheck;
        assert!(began.own() < recheck + SLACK, "{:?}", began.elapsed());
        guard.release().await.expect("a release");
        if round >= 3 && lost() > 0 {
            break;
        }
        assert!(round < 20, "in {round} rounds nothing was lost");
    }
    stage.nothing_left([waiter, holder]).await;
}

/// F25 (V5, V6): a waiter whose connections were cut is connected again, and is granted long before
/// a lease is over.
pub(crate) async fn a_waiter_whose_connections_were_cut_is_back_in_line_and_granted(
    stage: &mut Stage<'_>,
) {
    for (name, end) in [("cut", Line::cut as fn(&Line)), ("reset", Line::reset)] {
        let waiter = stage.client(Tempo::Patient).await;
        let holder = stage.client(Tempo::Patient).await;
        let key = stage.key(name);
        let held = holder.lock(&key).await.expect("a free key");
        let waiting = tokio::spawn(waiter.lock(&key).acquire());
        stage.in_line(&key, 1).await;
        let connections = || waiter.line.counted(|seen| seen.connections);
        let before = connections();
        end(&waiter.line);
        eventually("a new connection", || connections() > before).await;
        let began = Stopwatch::start();
        held.release().await.expect("a release");
        let guard = waiting.await.expect("no panic").expect("a grant");
        // The pauses between connects are 1 s at most.
        assert!(began.own() < ms(1_500) + SLACK, "{:?}", began.elapsed());
        guard.release().await.expect("a release");
        stage.gone(waiter).await;
        stage.gone(holder).await;
    }
    stage.nothing_left([]).await;
}

/// F25 (V5, V6): what happened while the waiter was kept out is not missed.
pub(crate) async fn a_release_while_the_waiter_was_cut_off_is_seen_when_it_is_back(
    stage: &mut Stage<'_>,
) {
    let waiter = stage.client(Tempo::Patient).await;
    let holder = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = holder.lock(&key).await.expect("a free key");
    let waiting = tokio::spawn(waiter.lock(&key).acquire());
    stage.in_line(&key, 1).await;
    waiter.line.refuse();
    waiter.line.closed().await;
    held.release().await.expect("a release");
    assert!(!waiting.is_finished());
    let began = Stopwatch::start();
    waiter.line.resume();
    let guard = within("the grant", waiting).await.expect("no panic").expect("a grant");
    assert!(began.own() < ms(2_500) + SLACK, "{:?}", began.elapsed());
    guard.release().await.expect("a release");
    stage.nothing_left([waiter, holder]).await;
}

/// F43 (V3, V6): all that is connected goes silent, and new connections work: the hold is kept.
pub(crate) async fn connections_that_go_silent_cost_no_hold(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Steady).await;
    let guard = locks.lock(stage.key("k")).await.expect("a free key");
    let token = guard.token();
    locks.line.silence();
    let before = locks.stats().renewals;
    // Three are a lease.
    eventually("renewals over new connections", || {
        assert!(guard.is_held(), "lost after {} renewals", locks.stats().renewals - before);
        locks.stats().renewals >= before + 4
    })
    .await;
    assert_eq!(guard.token(), token);
    drop(guard);
    // A silent connection would keep the servers' side open.
    locks.line.cut();
    stage.nothing_left([locks]).await;
}

/// F13, and "renewal outlives the release" (V1, V6): nobody renews a lock that was released. The
/// next holder renews it, and the first client says nothing of it meanwhile.
pub(crate) async fn no_renewal_is_sent_after_the_release(stage: &mut Stage<'_>) {
    // Not brisk: the hold is to be kept on a busy machine.
    let locks = stage.client(Tempo::Steady).await;
    let next = stage.client(Tempo::Steady).await;
    let key = stage.key("k");
    let guard = renewed(&locks, &key, 1).await;
    guard.release().await.expect("a release");
    eventually("it is quiet", || locks.stats().keys == 0).await;
    // A client of ZooKeeper takes back its watch on the line some time after it has left.
    let any = Match::any().but("REMOVEWATCHES").containing(&key);
    let snare = locks.line.trap(&any, Action::HoldReply);
    // For longer than a lease.
    let guard = renewed(&next, &key, 4).await;
    assert!(!snare.has_sprung(), "something was sent about a key that was given back");
    guard.release().await.expect("a release");
    stage.nothing_left([locks, next]).await;
}

/// F13, and the same (V6): a release that overtakes a renewal under way ends it too.
pub(crate) async fn a_renewal_under_way_at_the_release_does_not_bring_the_lock_back(
    stage: &mut Stage<'_>,
) {
    let locks = stage.client(Tempo::Brisk).await;
    let key = stage.key("k");
    let guard = locks.lock(&key).await.expect("a free key");
    let renewal = stage.trap(&locks, Verb::Renew, &key, Action::HoldRequest);
    renewal.sprung().await;
    let release = tokio::spawn(guard.release());
    renewal.release();
    release.await.expect("no panic").expect("a release");
    stage.free(&key).await;
    stage.nothing_left([locks]).await;
}
