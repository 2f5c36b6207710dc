//! Rules 1 to 4 and 14: duplicates of a handler that runs, and of one that was lost.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use lock_core::LockOptions;
use lock_core::idempotency::{Duplicates, OnUnknown};
use lock_tower::idempotency::HasScope;
use lock_tower::{FencingToken, IdempotencyLayer, OnLost};
use tokio::sync::{Semaphore, mpsc};

use crate::common::{Answer, Probe, ms, now, send, settle, spawn};
use crate::fixture::{Runs, engine, gated, once, order, two_processes};

fn is_replayed(answer: &Answer) -> bool {
    answer.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
}

#[tokio::test(start_paused = true)]
async fn rule_1_of_a_hundred_duplicates_one_runs_and_all_get_its_response() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine), &probe);
    let all: Vec<_> = (0..100).map(|_| spawn(&app, order("k"))).collect();
    settle().await;
    assert_eq!(probe.entered(), 1);
    probe.let_through(100);
    let mut replayed = 0;
    for one in all {
        let answer = one.await.unwrap();
        assert_eq!((answer.status, &*answer.text), (StatusCode::OK, "done"));
        replayed += usize::from(is_replayed(&answer));
    }
    assert_eq!((probe.entered(), replayed), (1, 99));
    assert_eq!(engine.stats().busy, 0);
}

/// A handler whose n-th run waits for the n-th permit of its own, and tells its token.
fn overtaken(layer: IdempotencyLayer<HasScope>) -> Overtaken {
    let (begun, tokens) = mpsc::unbounded_channel();
    let gates: Arc<[Semaphore; 2]> = Arc::new([Semaphore::new(0), Semaphore::new(0)]);
    let (runs, theirs) = (Runs::default(), gates.clone());
    let counting = runs.clone();
    let handler = async move |FencingToken(token): FencingToken| {
        let run = counting.next();
        begun.send(token).unwrap();
        theirs[run - 1].acquire().await.unwrap().forget();
        format!("run {run} under {token}")
    };
    Overtaken { app: Router::new().route("/orders", post(handler)).layer(layer), tokens, gates }
}

struct Overtaken {
    app: Router,
    tokens: mpsc::UnboundedReceiver<lock_core::FencingToken>,
    gates: Arc<[Semaphore; 2]>,
}

#[tokio::test(start_paused = true)]
async fn rule_2_a_completion_under_an_old_token_is_dropped_and_its_caller_comes_back() {
    let (one, other) = two_processes();
    // A hold limit stands in for a process that is stopped past its lease.
    let one = one.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let mut stale = overtaken(once(&one).on_lost(OnLost::Report));
    let mut later = overtaken(once(&other));
    let first = spawn(&stale.app, order("k"));
    let old = stale.tokens.recv().await.unwrap();
    let second = spawn(&later.app, order("k"));
    let new = later.tokens.recv().await.unwrap();
    assert!(new > old, "{new} after {old}");
    stale.gates[0].add_permits(1);
    // Not the response that it made: a later one is what all others get.
    let first = first.await.unwrap();
    first.assert_problem(503, "idempotency_lost");
    assert!((1..=2).contains(&first.retry_after().unwrap()));
    later.gates[0].add_permits(1);
    let expected = second.await.unwrap().text;
    assert_eq!((one.stats().stale_completions, other.stats().stale_completions), (1, 0));
    for app in [&stale.app, &later.app] {
        let again = send(app, order("k")).await;
        assert_eq!((&*again.text, is_replayed(&again)), (&*expected, true));
    }
}

#[tokio::test(start_paused = true)]
async fn rule_2_a_handler_that_lost_its_lock_holds_up_nobody_in_its_own_process() {
    let (engine, _) = engine();
    let engine = engine.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let mut shop = overtaken(once(&engine).on_lost(OnLost::Report));
    let stale = spawn(&shop.app, order("k"));
    let old = shop.tokens.recv().await.unwrap();
    shop.gates[1].add_permits(1);
    let second = send(&shop.app, order("k")).await;
    assert!(second.text.starts_with("run 2"), "{second:?}");
    assert!(shop.tokens.recv().await.unwrap() > old);
    shop.gates[0].add_permits(1);
    stale.await.unwrap().assert_problem(503, "idempotency_lost");
    assert_eq!(send(&shop.app, order("k")).await.text, second.text);
}

#[tokio::test(start_paused = true)]
async fn rule_3_a_claim_lives_as_long_as_its_handler() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = once(&engine.with_lease(ms(1_000))).duplicates(Duplicates::Reject);
    let app = gated(layer, &probe);
    let first = spawn(&app, order("k"));
    // Fifty leases.
    tokio::time::sleep(Duration::from_secs(50)).await;
    send(&app, order("k")).await.assert_problem(409, "idempotency_in_flight");
    probe.let_through(1);
    assert_eq!(first.await.unwrap().text, "done");
    assert!(is_replayed(&send(&app, order("k")).await));
    assert_eq!(probe.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn rule_4_a_duplicate_is_refused_at_once_where_that_was_chosen() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine).duplicates(Duplicates::Reject), &probe);
    let first = spawn(&app, order("k"));
    settle().await;
    let begun = now();
    let answer = send(&app, order("k")).await;
    answer.assert_problem(409, "idempotency_in_flight");
    assert!((1..=2).contains(&answer.retry_after().unwrap()));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // A request that has run for 20 s is not told to be done in one.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let answer = send(&app, order("k")).await;
    assert!((20..=26).contains(&answer.retry_after().unwrap()), "{answer:?}");
    probe.let_through(1);
    assert_eq!(first.await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn rule_4_a_duplicate_waits_and_is_woken_by_the_completion() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine), &probe);
    let first = spawn(&app, order("k"));
    settle().await;
    let others: Vec<_> = (0..10).map(|_| spawn(&app, order("k"))).collect();
    settle().await;
    assert!(engine.locks().stats().waiters <= 1, "duplicates of one process share one wait");
    let released = now();
    probe.let_through(1);
    for other in others {
        assert!(is_replayed(&other.await.unwrap()));
    }
    assert_eq!(released.elapsed(), Duration::ZERO, "no poll was waited for");
    assert_eq!(first.await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn rule_4_a_wait_ends_with_its_budget() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine).duplicates(Duplicates::Wait(ms(3_000))), &probe);
    let _first = spawn(&app, order("k"));
    settle().await;
    let begun = now();
    let answer = send(&app, order("k")).await;
    answer.assert_problem(409, "idempotency_in_flight");
    let took = begun.elapsed();
    assert!(took >= ms(3_000) && took <= ms(3_300), "{took:?}");
    assert!((3..=5).contains(&answer.retry_after().unwrap()), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn rule_14_a_handler_that_lost_its_lock_is_run_again_under_a_higher_token() {
    let (engine, _) = engine();
    let engine = engine.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let mut shop = overtaken(once(&engine));
    let first = send(&shop.app, order("k")).await;
    first.assert_problem(503, "idempotency_lost");
    assert!((1..=2).contains(&first.retry_after().unwrap()));
    shop.gates[1].add_permits(1);
    assert!(send(&shop.app, order("k")).await.text.starts_with("run 2"));
    let (old, new) = (shop.tokens.recv().await.unwrap(), shop.tokens.recv().await.unwrap());
    assert!(new > old, "{new} after {old}");
    assert_eq!(engine.stats().unknown, 1, "the record of the first was found");
}

#[tokio::test(start_paused = true)]
async fn rule_14_a_handler_that_lost_its_lock_is_not_run_again_where_that_was_chosen() {
    let (engine, _) = engine();
    let engine = engine.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let mut shop = overtaken(once(&engine).on_unknown(OnUnknown::Refuse));
    send(&shop.app, order("k")).await.assert_problem(503, "idempotency_lost");
    for _ in 0..2 {
        let answer = send(&shop.app, order("k")).await;
        answer.assert_problem(409, "idempotency_outcome_unknown");
        assert_eq!(answer.retry_after(), None);
    }
    assert!(shop.tokens.recv().await.is_some() && shop.tokens.is_empty());
}
