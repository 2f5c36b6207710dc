//! F11 to F13: requests that take effect without an answer, and those that never arrive.

use lock_core::error::LossReason;

use super::*;

/// F11 (V1, V2, V6): the same claim asks again, and is told that it is the owner.
pub(crate) async fn an_acquire_whose_reply_is_swallowed_is_granted_once(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let rival = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let snare = stage.trap(&locks, Verb::Attempt, &key, Action::SwallowReply);
    let acquire = tokio::spawn(locks.lock(&key).acquire());
    snare.sprung().await;
    // A database grants nothing by a statement that comes too late, and its answer says so: by the next.
    eventually("it was granted", || !stage.is_free(&key)).await;
    let guard = acquire.await.expect("no panic").expect("a grant");
    let token = guard.token();
    assert!(guard.is_held() && !stage.is_free(&key));
    assert_eq!(stage.layout().in_line(&stage.scope, &key), 0, "it has the key once");
    assert!(rival.lock(&key).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a release");
    let next = rival.lock(&key).await.expect("a free key");
    assert!(next.token() > token);
    next.release().await.expect("a release");
    stage.nothing_left([locks, rival]).await;
}

/// F11 (V3, V6): what the second request makes stays.
pub(crate) async fn an_acquire_whose_request_is_lost_is_made_again(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Brisk).await;
    let key = stage.key("k");
    let snare = stage.trap(&locks, Verb::Attempt, &key, Action::DropRequest);
    let guard = locks.lock(&key).await.expect("a grant");
    assert!(snare.has_sprung());
    assert_eq!(stage.layout().in_line(&stage.scope, &key), 0, "it has the key once");
    // The rest of the first try is cleared away meanwhile, and nothing else.
    eventually("renewals", || locks.stats().renewals >= 3).await;
    assert!(guard.is_held() && !stage.is_free(&key));
    guard.release().await.expect("a release");
    stage.nothing_left([locks]).await;
}

/// F11 (V6, V8): a try does not wait, so it does not know; the grant that was made is given back.
pub(crate) async fn a_try_whose_reply_is_swallowed_gives_its_grant_back(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    for action in [Action::SwallowReply, Action::DropRequest] {
        let key = stage.key(&format!("{action:?}"));
        // So that every server is asked, and not looked at first: the last reply was lost as well.
        let other = locks.lock(stage.key(&format!("before {action:?}"))).await.expect("a free key");
        other.release().await.expect("a release");
        let snare = stage.trap(&locks, Verb::Attempt, &key, action);
        let answer = locks.lock(&key).try_acquire().await;
        assert!(snare.has_sprung());
        let error = answer.expect_err("nobody knows");
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
        stage.free(&key).await;
        stage.the_next_one_proceeds(&key).await;
    }
    stage.nothing_left([locks]).await;
}

/// F11 (V5, V6): a waiter has the place that it took, and no other. Where the place is a session's,
/// and not one to be pushed to, it keeps it while its connection is gone.
pub(crate) async fn a_waiter_whose_reply_is_swallowed_has_one_place_in_line(stage: &mut Stage<'_>) {
    let holder = stage.client(Tempo::Patient).await;
    let behind = stage.client(Tempo::Patient).await;
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = holder.lock(&key).await.expect("a free key");
    let snare = stage.trap(&locks, Verb::Join, &key, Action::SwallowReply);
    let first = tokio::spawn(locks.lock(&key).acquire());
    snare.sprung().await;
    stage.in_line(&key, 1).await;
    let mut second = tokio::spawn(behind.lock(&key).acquire());
    stage.in_line(&key, 2).await;
    held.release().await.expect("a release");
    let first = async { first.await.expect("no panic").expect("a grant") };
    let keeps_it = !stage.times(Tempo::Patient).session.is_zero();
    if keeps_it && locks.capabilities().fifo {
        let first = first.await;
        assert!(!second.is_finished() && !stage.is_free(&key));
        first.release().await.expect("a release");
        second.await.expect("no panic").expect("a grant").release().await.expect("a release");
    } else {
        let first = async { first.await.release().await };
        let second = async { (&mut second).await.expect("no panic").expect("a grant") };
        let second = async { second.await.release().await };
        let (first, second) = tokio::join!(first, second);
        first.and(second).expect("both are released");
    }
    stage.nothing_left([holder, locks, behind]).await;
}

/// F12 (V6): it is asked again; that nothing is held then counts as done.
pub(crate) async fn a_release_whose_reply_is_swallowed_is_done(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let guard = locks.lock(&key).await.expect("a free key");
    let snare = stage.trap(&locks, Verb::Withdraw, &key, Action::SwallowReply);
    guard.release().await.expect("it is done");
    assert!(snare.has_sprung() && stage.is_free(&key));
    stage.nothing_left([locks]).await;
}

/// F12 (V2, V6): a release that is asked again does not take the key from the one it was handed to.
pub(crate) async fn a_repeated_release_leaves_the_next_holder_alone(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let next = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let guard = locks.lock(&key).await.expect("a free key");
    let token = guard.token();
    let waiting = tokio::spawn(next.lock(&key).acquire());
    stage.in_line(&key, 1).await;
    // Where a holder is told that others wait, it asks at once; that request is not the release.
    eventually("a renewal", || locks.stats().renewals >= 1).await;
    let snare = stage.trap(&locks, Verb::Withdraw, &key, Action::SwallowReply);
    guard.release().await.expect("it is done");
    assert!(snare.has_sprung());
    let guard = waiting.await.expect("no panic").expect("a grant");
    assert!(guard.token() > token && guard.is_held());
    let renewals = next.stats().renewals;
    eventually("it is renewed", || next.stats().renewals > renewals).await;
    assert!(guard.is_held() && !stage.is_free(&key));
    guard.release().await.expect("a release");
    stage.nothing_left([locks, next]).await;
}

/// F13 (V3, V6): renewals that take effect and are not answered prove nothing.
pub(crate) async fn a_hold_counts_from_the_last_answered_request(stage: &mut Stage<'_>) {
    let locks = stage.holder(Tempo::Brisk).await;
    let guard = locks.lock(stage.key("k")).await.expect("a free key");
    let began = Stopwatch::start();
    locks.line.set(Direction::ToClient, Flow::BlackHole);
    let lost = within("the loss", guard.lost()).await;
    let took = began.own();
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(took < stage.times(Tempo::Brisk).lost_within + LATE, "{took:?}");
    drop(guard);
    locks.line.resume();
    stage.nothing_left([locks]).await;
}

/// F13, and "renewal stops after one failed update" (V3, V6): after one lost renewal, request or
/// reply, the next is made, and the lock outlives its lease.
pub(crate) async fn renewals_go_on_after_one_that_failed(stage: &mut Stage<'_>) {
    let mut held = Vec::new();
    for action in [Action::SwallowReply, Action::DropRequest] {
        let locks = stage.client(Tempo::Steady).await;
        let key = stage.key(&format!("{action:?}"));
        // One renewal fails, and a busy machine may be late with the next.
        let [steady, patient] = [Tempo::Steady, Tempo::Patient].map(|it| stage.times(it).lease);
        let lease = (steady * 2).min(patient);
        let guard = locks.lock(&key).lease(lease).await.expect("a free key");
        let snare = stage.trap(&locks, Verb::Renew, &key, action);
        snare.sprung().await;
        held.push((locks.stats().renewals, locks, guard));
    }
    for (before, locks, guard) in held {
        // Three are a lease.
        let gone_on = || locks.stats().renewals >= before + 4 || !guard.is_held();
        eventually("renewals after the fault", gone_on).await;
        assert!(guard.is_held());
        guard.release().await.expect("a release");
        stage.gone(locks).await;
    }
    stage.nothing_left([]).await;
}

/// F11 to F13 (V6): whichever of the first requests of a life of a lock loses its reply, its
/// request or its time, the lock is taken and given back, and the next client has it.
pub(crate) async fn any_one_fault_in_the_life_of_a_lock_leaves_it_usable(stage: &mut Stage<'_>) {
    let next = stage.client(Tempo::Brisk).await;
    for action in [Action::SwallowReply, Action::DropRequest, Action::HoldReply] {
        for nth in 0..3 {
            let locks = stage.holder(Tempo::Brisk).await;
            let key = stage.key(&format!("{action:?}-{nth}"));
            let snare = locks.line.trap(&Match::any().containing(&key).after(nth), action);
            let guard = locks.lock(&key).await.unwrap_or_else(|error| {
                panic!("{action:?} of request {nth}: {error}");
            });
            // A release may have to wait for its time limit here.
            let released = guard.release().await;
            let guard = next.lock(&key).await.expect("a free key");
            if let Err(error) = released {
                let is_known = error.is_unavailable() || error.is_not_held();
                assert!(is_known, "{action:?} of request {nth}: {error}");
            }
            guard.release().await.expect("a release");
            drop(snare);
            stage.gone(locks).await;
        }
    }
    stage.nothing_left([next]).await;
}
