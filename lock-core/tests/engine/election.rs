//! One leader, and those who follow.

use std::sync::Arc;

use lock_core::backend::FaultKind;
use lock_core::error::{LossReason, OperatorError, Rejection, RunError};
use lock_core::futures::Observe;
use lock_core::limits::ELECTION_VALUE_BYTES_MAX;
use lock_core::memory::Memory;
use lock_core::quorum::Quorum;
use lock_core::test_util::{Act, Verb, cut};
use lock_core::view::Leader;
use lock_core::{AcquireError, LockClient};
use tokio::time::{Instant, sleep, timeout};

use crate::cancel::CUTS;
use crate::{Stage, Test, ms, secs, settle};

/// The next item, as the value of who leads.
async fn next(leaders: &mut Observe) -> Option<Arc<str>> {
    let item = leaders.next().await.expect("it goes on").expect("an answer");
    item.map(|leader: Leader| leader.value)
}

#[tokio::test(start_paused = true)]
async fn one_leads_at_a_time_and_all_who_follow_are_told_who() -> Test {
    let stage = Stage::new();
    let (here, there) = (stage.locks.election("jobs"), stage.rival.election("jobs"));
    let mut leaders = [here.observe(), there.observe()];
    for leaders in &mut leaders {
        assert_eq!(next(leaders).await, None);
    }
    let mut before = None;
    for nth in 0..4 {
        let election = if nth % 2 == 0 { &here } else { &there };
        let value = format!("host-{nth}");
        let term = election.run_for(value.clone()).await?;
        assert!(term.is_leader() && term.value() == value && before < Some(term.token()));
        assert!(stage.rival.election("jobs").try_run_for("late").await?.is_none());
        for leaders in &mut leaders {
            let leader = leaders.next().await.expect("a leader")?.expect("a leader");
            assert_eq!((&*leader.value, leader.token), (&*value, Some(term.token())));
        }
        assert_eq!(here.leader().await?.map(|it| it.value).as_deref(), Some(&*value));
        // Nothing is told while nothing changes, whatever is renewed.
        assert!(timeout(secs(60), leaders[0].next()).await.is_err());
        before = Some(term.token());
        term.resign().await?;
        for leaders in &mut leaders {
            assert_eq!(next(leaders).await, None);
        }
    }
    drop(leaders);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn candidates_of_one_process_stand_in_the_stores_line_one_by_one() -> Test {
    let stage = Stage::new();
    let election = stage.locks.election("jobs");
    let first = election.run_for("first").await?;
    let second = tokio::spawn(election.run_for("second"));
    settle().await;
    let third = tokio::spawn(stage.rival.election("jobs").run_for("third"));
    settle().await;
    let fourth = tokio::spawn(election.run_for("fourth"));
    settle().await;
    // One who wants the key of an election waits for its turn, too.
    let holder = tokio::spawn(stage.locks.lock("jobs").wait(secs(60)).acquire());
    settle().await;
    assert_eq!(stage.rival.inspect("jobs").await?.waiters.len(), 4);
    let busy = stage.locks.busy_keys();
    assert_eq!((busy.len(), busy[0].guards.len(), busy[0].waiters), (1, 1, 3), "{busy:?}");
    let mut leaders = stage.rival.election("jobs").observe();
    assert_eq!(next(&mut leaders).await.as_deref(), Some("first"));
    first.resign().await?;
    assert_eq!(next(&mut leaders).await.as_deref(), Some("second"));
    second.await??.resign().await?;
    assert_eq!(next(&mut leaders).await.as_deref(), Some("third"));
    third.await??.resign().await?;
    assert_eq!(next(&mut leaders).await.as_deref(), Some("fourth"));
    assert!(!holder.is_finished());
    drop(fourth.await??);
    assert_eq!(next(&mut leaders).await, None, "who holds the key leads nothing");
    drop((holder.await??, leaders));
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// Cut off from the store, with its requests hanging, a leader knows by its clock.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_steps_down_before_the_next_is_told_to_lead() -> Test {
    let stage = Stage::new();
    let term = stage.locks.election("jobs").lease(secs(6)).run_for("old").await?;
    let next = stage.rival.election("jobs");
    let next = tokio::spawn(async move {
        let term = next.run_for("next").await?;
        Ok::<_, AcquireError>((Instant::now(), term))
    });
    settle().await;
    for verb in [Verb::Renew, Verb::Withdraw] {
        stage.script.always(verb, Act::Never);
    }
    let lost = term.lost();
    let (why, at) = (lost.await, Instant::now());
    assert_eq!(why.reason(), LossReason::Expired);
    assert!(!term.is_leader());
    let (led, next) = next.await??;
    assert!(at < led, "the next led {:?} before the old one was told", at - led);
    assert!(next.token() > term.token());
    stage.script.heal();
    drop((term, next));
    stage.is_clean(secs(10)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_resignation_that_was_not_served_is_tried_again_until_it_is() -> Test {
    for act in [Act::Lost, Act::Err(FaultKind::Transient), Act::Slow(ms(900))] {
        let stage = Stage::new();
        let term = stage.locks.election("jobs").lease(secs(60)).run_for("old").await?;
        let next = tokio::spawn(stage.rival.election("jobs").run_for("next"));
        settle().await;
        (0..5).for_each(|_| stage.script.next(Verb::Withdraw, act));
        if act == Act::Lost {
            drop(term)
        } else {
            term.resign().await?
        }
        let next = timeout(secs(5), next).await.expect("long before the lease ends")??;
        next.resign().await?;
        stage.is_clean(secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_once_and_then_who_leads() -> Test {
    let stage = Stage::new();
    let mut leaders = stage.locks.election("jobs").observe();
    assert_eq!(next(&mut leaders).await, None);
    stage.script.always(Verb::Follow, Act::Err(FaultKind::Transient));
    let term = stage.rival.election("jobs").run_for("a").await?;
    let error = leaders.next().await.expect("it goes on").expect_err("nobody answers");
    assert!(error.is_unavailable() && error.to_string().contains("jobs"), "{error}");
    assert!(timeout(secs(60), leaders.next()).await.is_err(), "told once");
    stage.script.heal();
    assert_eq!(next(&mut leaders).await.as_deref(), Some("a"));
    // The same leader after an outage: what was told before it may have been of the past.
    stage.script.always(Verb::Follow, Act::Err(FaultKind::Transient));
    assert!(leaders.next().await.expect("it goes on").is_err());
    stage.script.heal();
    assert_eq!(next(&mut leaders).await.as_deref(), Some("a"));
    // One that has taken its place and does not answer either is an outage like any other.
    let mut late = stage.locks.election("jobs").observe();
    stage.script.next(Verb::Follow, Act::Err(FaultKind::Superseded));
    stage.script.next(Verb::Follow, Act::Err(FaultKind::Transient));
    assert!(late.next().await.expect("it goes on").is_err());
    assert_eq!(next(&mut late).await.as_deref(), Some("a"));
    drop(late);
    // Another server in the place of the last one is no outage.
    stage.script.next(Verb::Follow, Act::Err(FaultKind::Superseded));
    term.resign().await?;
    assert_eq!(next(&mut leaders).await, None);
    drop(leaders);
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_candidate_waits_on_through_outages_and_for_longer_than_any_lock() -> Test {
    let stage = Stage::new();
    let term = stage.rival.election("jobs").lease(secs(3_600)).run_for("a").await?;
    let next = tokio::spawn(stage.locks.election("jobs").run_for("b"));
    settle().await;
    stage.script.always(Verb::Attempt, Act::Err(FaultKind::Transient));
    sleep(secs(25 * 3_600)).await;
    assert!(!next.is_finished() && term.is_leader());
    stage.script.heal();
    term.resign().await?;
    timeout(secs(3_700), next).await???.resign().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_runs_as_long_as_its_term() -> Test {
    let stage = Stage::new();
    let election = stage.locks.election("jobs");
    let done = election.run("a", async |term: lock_core::LockHandle| term.token()).await?;
    assert!(done.get() > 0);
    let endless =
        tokio::spawn(async move { election.run("a", |_| std::future::pending::<()>()).await });
    settle().await;
    assert!(stage.rival.force_release("jobs").await?);
    let cut = timeout(secs(5), endless).await??;
    assert!(matches!(&cut, Err(RunError::Lost(lost)) if lost.reason() == LossReason::Taken));
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_asked_to_resign_by_an_operator() -> Test {
    let stage = Stage::new();
    let term = stage.locks.election("jobs").run_for("a").await?;
    let asked = tokio::spawn(term.revoke_requested());
    settle().await;
    assert!(stage.rival.request_revoke("jobs").await?);
    timeout(secs(5), asked).await??;
    assert!(term.is_leader());
    term.resign().await?;
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_no_store_could_serve_is_refused_before_anything_is_sent() -> Test {
    let stage = Stage::new();
    let election = stage.locks.election("jobs");
    let long = "x".repeat(ELECTION_VALUE_BYTES_MAX + 1);
    let error = election.run_for(&*long).await.expect_err("too long");
    assert!(matches!(
        &error,
        AcquireError::Rejected(Rejection::Value { given: 1_025, max: 1_024, .. })
    ));
    assert!(error.to_string().contains("jobs"), "{error}");
    let error = election.clone().lease(ms(1)).run_for("x").await.expect_err("too short");
    assert!(error.is_rejected(), "{error}");
    assert!(stage.locks.election("").run_for("x").await.expect_err("no key").is_rejected());
    let mut leaders = stage.locks.election("").observe();
    assert!(matches!(leaders.next().await, Some(Err(OperatorError::Key(_)))));
    assert!(leaders.next().await.is_none());
    assert!(stage.script.calls().is_empty());
    election.run_for(&long[1..]).await?.resign().await?;

    let quorum = Quorum::new(vec![Memory::new(), Memory::new(), Memory::new()])?;
    let locks = LockClient::with_backend(quorum);
    assert!(!locks.capabilities().election);
    let election = locks.election("jobs");
    let error = election.run_for("x").await.expect_err("a quorum has no elections");
    let unserved =
        matches!(&error, AcquireError::Rejected(Rejection::Unsupported { option: "election", .. }));
    assert!(unserved && error.to_string().contains("jobs"), "{error}");
    assert!(election.leader().await.expect_err("none").is_unsupported());
    stage.is_clean(secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_candidates_terms_and_streams() -> Test {
    let stage = Stage::new();
    let election = stage.locks.election("jobs");
    let term = election.run_for("a").await?;
    let waits = tokio::spawn(election.run_for("b"));
    let mut leaders = election.observe();
    assert_eq!(next(&mut leaders).await.as_deref(), Some("a"));
    settle().await;
    let report = stage.locks.shutdown(ms(10)).await;
    assert_eq!(report.abandoned, 1);
    assert!(!term.is_leader());
    assert!(waits.await?.expect_err("it is closed").is_closed());
    assert!(leaders.next().await.is_none() && leaders.next().await.is_none());
    assert!(election.leader().await.is_err());
    drop(leaders);
    stage.is_clean(secs(1)).await;
    Ok(())
}

/// Wherever it is dropped, whatever the store does: the next candidate leads, and nothing is left.
#[tokio::test(start_paused = true)]
async fn a_candidate_and_a_follower_can_be_dropped_anywhere() -> Test {
    let acts = [Act::Ok, Act::Err(FaultKind::Transient), Act::Lost, Act::Slow(ms(700)), Act::Never];
    for act in acts {
        for verb in [Verb::Attempt, Verb::Withdraw, Verb::Follow] {
            for at in CUTS {
                for is_led in [false, true] {
                    let stage = Stage::new();
                    let term = if is_led {
                        Some(stage.rival.election("jobs").run_for("old").await?)
                    } else {
                        None
                    };
                    stage.script.always(verb, act);
                    let election = stage.locks.election("jobs").lease(secs(6));
                    let mut leaders = election.observe();
                    drop(cut(at, leaders.next()).await);
                    drop(cut(at, election.run_for("cut")).await);
                    drop(leaders);
                    drop(term);
                    let next = stage.rival.election("jobs").run_for("next");
                    let next = timeout(secs(20), next).await;
                    let what = format!("{act:?} of {verb:?}, cut {at:?}, led: {is_led}");
                    drop(next.unwrap_or_else(|_| panic!("nobody leads: {what}"))?);
                    stage.script.heal();
                    stage.is_clean(secs(20)).await;
                }
            }
        }
    }
    Ok(())
}
