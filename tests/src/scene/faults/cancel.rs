//! F18: acquires and releases that are dropped, at each place where they can wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use lock_core::test_util::{Cut, cut};

use super::*;

/// V6.
pub(crate) async fn an_acquire_that_was_never_polled_has_done_nothing(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let (key, before) = (stage.key("k"), locks.stats());
    drop(locks.lock(&key).acquire());
    assert_eq!(locks.stats(), before);
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([locks]).await;
}

/// V5, V6.
pub(crate) async fn an_acquire_dropped_after_its_first_poll_leaves_nothing(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    // In memory it is granted by then.
    drop(cut(Cut::Woken(1), locks.lock(&key).acquire()).await);
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([locks]).await;
}

/// V5, V6: whichever request or reply an acquire of a free key, and one of a held key, is dropped
/// at.
pub(crate) async fn an_acquire_dropped_at_any_of_its_requests_leaves_nothing(
    stage: &mut Stage<'_>,
) {
    let locks = stage.client(Tempo::Patient).await;
    let holder = stage.client(Tempo::Patient).await;
    for action in [Action::HoldRequest, Action::HoldReply] {
        for is_held in [false, true] {
            let mut dropped = 0;
            loop {
                let key = stage.key(&format!("{action:?}-{is_held}-{dropped}"));
                let held = match is_held {
                    true => Some(holder.lock(&key).await.expect("a free key")),
                    false => None,
                };
                let snare = locks.line.trap(&nth_request(&key, dropped), action);
                let mut acquire = tokio::spawn(locks.lock(&key).wait(ms(1_000)).acquire());
                let ended = tokio::select! {
                    biased;
                    answer = &mut acquire => Some(answer.expect("no panic")),
                    () = snare.sprung() => None,
                };
                acquire.abort();
                drop(snare);
                let is_over = ended.is_some();
                drop(ended);
                eventually("no key is busy", || locks.stats().keys == 0).await;
                stage.in_line(&key, 0).await;
                if let Some(held) = held {
                    held.release().await.expect("a release");
                }
                stage.the_next_one_proceeds(&key).await;
                if is_over {
                    break;
                }
                dropped += 1;
            }
            assert!(dropped >= 1, "{action:?}: no request was caught");
        }
    }
    stage.nothing_left([locks, holder]).await;
}

/// The request of a lock on `key` after the first `n`, whatever it asks for.
fn nth_request(key: &str, n: u64) -> Match {
    Match::any().containing(key).after(n)
}

/// V5, V6, and "an orphan node after a cancelled acquire": the caller is gone, and so is the answer
/// to its request, or the request itself.
pub(crate) async fn an_acquire_dropped_while_its_reply_is_lost_leaves_nothing(
    stage: &mut Stage<'_>,
) {
    let locks = stage.client(Tempo::Patient).await;
    for action in [Action::SwallowReply, Action::DropRequest] {
        let key = stage.key(&format!("{action:?}"));
        let snare = stage.trap(&locks, Verb::Attempt, &key, action);
        let acquire = tokio::spawn(locks.lock(&key).acquire());
        snare.sprung().await;
        acquire.abort();
        let _ = acquire.await;
        eventually("no key is busy", || locks.stats().keys == 0).await;
        stage.the_next_one_proceeds(&key).await;
    }
    stage.nothing_left([locks]).await;
}

/// V5, V6.
pub(crate) async fn an_acquire_dropped_in_line_leaves_the_line(stage: &mut Stage<'_>) {
    let holder = stage.client(Tempo::Patient).await;
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = holder.lock(&key).await.expect("a free key");
    let acquire = tokio::spawn(locks.lock(&key).wait(ms(60_000)).acquire());
    stage.in_line(&key, 1).await;
    acquire.abort();
    stage.in_line(&key, 0).await;
    held.release().await.expect("a release");
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([holder, locks]).await;
}

/// V5, V6: the others of the same process keep the claim's place.
pub(crate) async fn an_acquire_dropped_in_line_leaves_the_place_to_those_behind_it(
    stage: &mut Stage<'_>,
) {
    let holder = stage.client(Tempo::Patient).await;
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = holder.lock(&key).await.expect("a free key");
    let first = tokio::spawn(locks.lock(&key).acquire());
    stage.in_line(&key, 1).await;
    let second = tokio::spawn(locks.lock(&key).acquire());
    eventually("both wait", || locks.stats().waiters == 2).await;
    first.abort();
    eventually("one waits", || locks.stats().waiters == 1).await;
    assert_eq!(stage.layout().in_line(&stage.scope, &key), 1);
    held.release().await.expect("a release");
    second.await.expect("no panic").expect("a grant").release().await.expect("a release");
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([holder, locks]).await;
}

/// V5, V6.
pub(crate) async fn an_acquire_dropped_with_a_grant_that_it_did_not_look_at_passes_it_on(
    stage: &mut Stage<'_>,
) {
    let holder = stage.client(Tempo::Patient).await;
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = holder.lock(&key).await.expect("a free key");
    let mut acquire = pin!(Some(locks.lock(&key).acquire()));
    let first = poll_fn(|cx| {
        let acquire = acquire.as_mut().as_pin_mut().expect("it waits");
        Poll::Ready(acquire.poll(cx).is_ready())
    });
    assert!(!first.await, "it is held");
    stage.in_line(&key, 1).await;
    held.release().await.expect("a release");
    eventually("the grant is there", || locks.stats().held == 1).await;
    acquire.set(None);
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([holder, locks]).await;
}

/// V5, V6.
pub(crate) async fn an_acquire_dropped_between_two_tries_leaves_nothing(stage: &mut Stage<'_>) {
    let holder = stage.client(Tempo::Patient).await;
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let held = holder.lock(&key).await.expect("a free key");
    {
        let mut acquire = Box::pin(locks.lock(&key).wait(ms(20)).retries(1_000).acquire());
        let pausing = poll_fn(|cx| {
            let _ = acquire.as_mut().poll(cx);
            match format!("{acquire:?}").contains("pausing") {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        within("the pause", pausing).await;
    }
    stage.in_line(&key, 0).await;
    held.release().await.expect("a release");
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([holder, locks]).await;
}

/// V2, V5, V6.
pub(crate) async fn acquires_dropped_at_any_moment_under_contention_leave_nothing(
    stage: &mut Stage<'_>,
) {
    crate::chance::begin();
    let locks = stage.client(Tempo::Patient).await;
    let rival = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let ended = Arc::new(AtomicBool::new(false));
    let traffic = tokio::spawn({
        let (rival, key, ended) = (rival.locks.clone(), key.clone(), ended.clone());
        async move {
            while !ended.load(Ordering::Relaxed) {
                let guard = rival.lock(&key).wait(ms(20_000)).await.expect("a grant");
                // It is held while others run.
                tokio::task::yield_now().await;
                given_back(guard).await;
            }
        }
    });
    let (mut granted, mut tries, began) = (0, 0, Instant::now());
    while tries < 300 && began.elapsed() < ms(5_000) {
        tries += 1;
        // Counted in turns of the runtime, or in time: a grant takes some of either.
        let turns = fastrand::u32(0..20);
        let patience = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            if tries % 2 == 0 {
                tokio::time::sleep(ms(fastrand::u64(0..16))).await;
            }
        };
        tokio::select! {
            biased;
            guard = locks.lock(&key).acquire() => {
                granted += 1;
                // Given up in both ways.
                match tries % 3 {
                    0 => drop(guard.expect("a grant")),
                    _ => given_back(guard.expect("a grant")).await,
                }
            }
            () = patience => {}
        }
    }
    ended.store(true, Ordering::Relaxed);
    traffic.await.expect("no panic");
    assert!(granted < tries, "nothing was dropped");
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([locks, rival]).await;
}

/// V2, V5, V6: free and busy locks are taken and given back, each of these futures is dropped after
/// each number of polls, and another client takes the lock behind it.
pub(crate) async fn whatever_is_dropped_at_any_poll_leaves_the_lock_to_the_next(
    stage: &mut Stage<'_>,
) {
    let locks = stage.client(Tempo::Patient).await;
    let other = stage.client(Tempo::Patient).await;
    let take = |client: &Client, key: &str| client.lock(key).acquire();
    let [free_key, busy_key, released_key] = ["free", "busy", "released"].map(|it| stage.key(it));
    for polls in 0.. {
        let free = cut(Cut::Woken(polls), take(&locks, &free_key)).await;
        let held = within("a free key", take(&other, &busy_key)).await.expect("a grant");
        let before = held.token();
        let (busy, released) =
            tokio::join!(cut(Cut::Woken(polls), take(&locks, &busy_key)), held.release());
        released.expect("a release");
        let held = within("a free key", take(&locks, &released_key)).await.expect("a grant");
        let released = cut(Cut::Woken(polls), held.release()).await;
        let is_over = free.is_some() && busy.is_some() && released.is_some();
        drop((free, busy));
        for key in [&free_key, &busy_key, &released_key] {
            let began = Stopwatch::start();
            let next = within(key, take(&other, key)).await;
            let next = next.unwrap_or_else(|error| panic!("{key}, after {polls} polls: {error}"));
            // A claim that was left behind would be there for a lease.
            let took = began.own();
            assert!(took < ms(2_000) + SLACK, "{key}, after {polls} polls: {took:?}");
            assert!(
                key != &busy_key || next.token() > before,
                "a finding of safety: after {polls} polls"
            );
            next.release().await.expect("a release");
        }
        if is_over {
            let at_least = if stage.can(Power::Link) { 2 } else { 1 };
            assert!(polls >= at_least, "nothing waited for anything");
            break;
        }
    }
    stage.nothing_left([locks, other]).await;
}

/// V5, V6: from its first poll on, and before.
pub(crate) async fn a_release_dropped_at_any_place_goes_on(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    for polls in 0..2 {
        let guard = locks.lock(&key).await.expect("a free key");
        drop(cut(Cut::Woken(polls), guard.release()).await);
        stage.free(&key).await;
        stage.the_next_one_proceeds(&key).await;
    }
    for action in
        [Action::HoldRequest, Action::HoldReply, Action::DropRequest, Action::SwallowReply]
    {
        let guard = locks.lock(&key).await.expect("a free key");
        let snare = stage.trap(&locks, Verb::Withdraw, &key, action);
        let release = tokio::spawn(guard.release());
        snare.sprung().await;
        release.abort();
        let _ = release.await;
        drop(snare);
        stage.the_next_one_proceeds(&key).await;
    }
    stage.nothing_left([locks]).await;
}

/// V5, V6.
pub(crate) async fn a_guard_dropped_while_its_release_is_lost_leaves_nothing(
    stage: &mut Stage<'_>,
) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    for action in [Action::DropRequest, Action::SwallowReply] {
        let guard = locks.lock(&key).await.expect("a free key");
        let snare = stage.trap(&locks, Verb::Withdraw, &key, action);
        drop(guard);
        snare.sprung().await;
        stage.the_next_one_proceeds(&key).await;
        eventually("no key is busy", || locks.stats().keys == 0).await;
    }
    stage.nothing_left([locks]).await;
}
