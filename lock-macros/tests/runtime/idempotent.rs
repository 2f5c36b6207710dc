//! What a function under `#[idempotent]` does, against stores in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::backend::FaultKind;
use lock_core::idempotency::{
    BeginError, BeginRejection, Duplicates, Idempotency, IdempotencyError, MemoryRecords, Scope,
};
use lock_core::memory::Memory;
use lock_core::test_util::{Act, Scripted, Verb};
use lock_core::{Key, LockClient, idempotent};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::sync::Notify;

type Outcome<T> = Result<T, IdempotencyError>;

fn engine() -> Idempotency {
    Idempotency::new("tests", LockClient::memory(), MemoryRecords::new())
}

#[derive(Debug, Default)]
struct Till {
    runs: AtomicU32,
    open: Notify,
}

impl Till {
    fn run(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[idempotent(
    key = "{request}", scope = "tenant:{tenant}", client = once, fingerprint = (amount), guard = lock
)]
async fn pay(
    once: &Idempotency,
    till: &Till,
    tenant: &str,
    request: &str,
    amount: u32,
) -> Outcome<(u32, u64)> {
    Ok((till.run(), lock.token().get()))
}

#[tokio::test(start_paused = true)]
async fn the_first_call_runs_and_later_ones_are_given_its_value() {
    let (once, till) = (engine(), Till::default());
    let first = pay(&once, &till, "a", "r1", 5).await.unwrap();
    for _ in 0..3 {
        assert_eq!(pay(&once, &till, "a", "r1", 5).await.unwrap(), first);
    }
    assert_eq!(till.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn another_key_or_scope_runs_and_another_fingerprint_is_a_mismatch() {
    let (once, till) = (engine(), Till::default());
    for (tenant, request) in [("a", "r1"), ("b", "r1"), ("a", "r2"), ("a:r1", "r2")] {
        pay(&once, &till, tenant, request, 5).await.unwrap();
    }
    assert_eq!(till.runs.load(Ordering::SeqCst), 4);
    let other = pay(&once, &till, "a", "r1", 6).await;
    assert!(matches!(other, Err(IdempotencyError::Mismatch)), "{other:?}");
}

#[idempotent(key = "{request}", scope = "tenant:{tenant}", client = once)]
async fn refund(once: &Idempotency, tenant: &str, request: &str) -> Outcome<String> {
    Ok("refunded".to_owned())
}

#[tokio::test(start_paused = true)]
async fn two_functions_with_one_key_are_a_mismatch_and_no_mix_up() {
    let (once, till) = (engine(), Till::default());
    pay(&once, &till, "a", "r1", 5).await.unwrap();
    let other = refund(&once, "a", "r1").await;
    assert!(matches!(other, Err(IdempotencyError::Mismatch)), "{other:?}");
}

mod old {
    #[super::idempotent(key = "k", scope = global, client = once, name = "shop::pay")]
    pub(super) async fn pay(once: &super::Idempotency) -> super::Outcome<u8> {
        Ok(1)
    }
}

#[idempotent(key = "k", scope = global, client = once, name = "shop::pay")]
async fn renamed(once: Arc<Idempotency>) -> Outcome<u8> {
    Ok(2)
}

#[tokio::test(start_paused = true)]
async fn a_function_that_was_renamed_knows_its_keys_by_name() {
    let once = engine();
    assert_eq!(old::pay(&once).await.unwrap(), 1);
    assert_eq!(renamed(Arc::new(once)).await.unwrap(), 1);
}

#[derive(Debug, PartialEq)]
enum AppError {
    Declined(u32),
    Refused(String),
}

impl From<IdempotencyError> for AppError {
    fn from(error: IdempotencyError) -> Self {
        Self::Refused(error.to_string())
    }
}

#[idempotent(key = "k", scope = global, client = once)]
async fn declined_twice(once: &Idempotency, till: &Till) -> Result<u32, AppError> {
    match till.run() {
        run @ 1..=2 => Err(AppError::Declined(run)),
        run => Ok(run),
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_is_not_kept_and_the_next_call_runs() {
    let (once, till) = (engine(), Till::default());
    assert_eq!(declined_twice(&once, &till).await, Err(AppError::Declined(1)));
    assert_eq!(declined_twice(&once, &till).await, Err(AppError::Declined(2)));
    for _ in 0..3 {
        assert_eq!(declined_twice(&once, &till).await, Ok(3));
    }
}

#[idempotent(key = "k", scope = global, client = once, wait = "3s")]
async fn slow(once: &Idempotency, till: &Till) -> Outcome<u32> {
    let run = till.run();
    till.open.notified().await;
    Ok(run)
}

#[tokio::test(start_paused = true)]
async fn duplicates_wait_for_the_call_that_runs_as_long_as_they_were_told() {
    let (once, till) = (engine(), Arc::new(Till::default()));
    let call = || {
        let (once, till) = (once.clone(), till.clone());
        tokio::spawn(async move { slow(&once, &till).await })
    };
    let (first, second) = (call(), call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    till.open.notify_one();
    assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (1, 1));
    let other = engine().with_duplicates(Duplicates::Reject);
    let late = tokio::spawn({
        let (other, till) = (other.clone(), till.clone());
        async move { slow(&other, &till).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = slow(&other, &till).await;
    let Err(IdempotencyError::InFlight { age }) = refused else { panic!("{refused:?}") };
    assert_eq!(age, Duration::from_secs(4));
    till.open.notify_one();
    assert_eq!(late.await.unwrap().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_leaves_nothing_and_the_next_one_runs() {
    let (once, till) = (engine(), Till::default());
    let second = Duration::from_secs(1);
    assert!(tokio::time::timeout(second, slow(&once, &till)).await.is_err());
    till.open.notify_one();
    assert_eq!(slow(&once, &till).await.unwrap(), 2);
    assert_eq!(once.stats().aborted, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_ends_the_body_at_its_await() {
    let (backend, script) = Scripted::new(Memory::new());
    let once = Idempotency::new("tests", LockClient::with_backend(backend), MemoryRecords::new());
    script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    let till = Till::default();
    let lost = slow(&once, &till).await;
    assert!(matches!(lost, Err(IdempotencyError::Lost(_))), "{lost:?}");
    assert!(lost.unwrap_err().is_retryable());
    script.heal();
    assert_eq!(once.stats().aborted, 0, "what it has done nobody knows");
    till.open.notify_one();
    assert_eq!(slow(&once, &till).await.unwrap(), 2);
    assert_eq!(once.stats().unknown, 1);
}

#[idempotent(key = "k", scope = global, client = once)]
async fn unkept(once: &Idempotency, till: &Till) -> Outcome<HashMap<(u8, u8), u32>> {
    Ok([((1, 2), till.run())].into())
}

#[tokio::test(start_paused = true)]
async fn a_value_that_can_not_be_kept_is_returned_once_and_never_made_again() {
    let (once, till) = (engine(), Till::default());
    assert_eq!(unkept(&once, &till).await.unwrap().len(), 1);
    let again = unkept(&once, &till).await;
    assert!(matches!(again, Err(IdempotencyError::WithoutPayload)), "{again:?}");
    assert_eq!(till.runs.load(Ordering::SeqCst), 1);
}

#[idempotent(key = "k", scope = global, client = once)]
async fn found(once: &Idempotency, till: &Till) -> Outcome<Option<Option<f64>>> {
    till.run();
    Ok(Some(None))
}

#[idempotent(key = "k", scope = global, client = once, name = "rate")]
async fn rate(once: &Idempotency, till: &Till, rate: f64) -> Outcome<f64> {
    till.run();
    Ok(rate)
}

#[tokio::test(start_paused = true)]
async fn a_later_call_is_given_what_the_first_one_was_or_told_that_it_was_not_kept() {
    let (once, till) = (engine(), Till::default());
    assert_eq!(found(&once, &till).await.unwrap(), Some(None));
    let again = found(&once, &till).await;
    assert!(matches!(again, Err(IdempotencyError::WithoutPayload)), "{again:?}");

    // Without `float_roundtrip` it comes back as its neighbour.
    let (once, number) = (engine(), 25.0 / 997.0);
    for _ in 0..2 {
        assert_eq!(rate(&once, &till, number).await.unwrap(), number);
    }
    let once = engine();
    assert!(rate(&once, &till, f64::NAN).await.unwrap().is_nan());
    let again = rate(&once, &till, f64::NAN).await;
    assert!(matches!(again, Err(IdempotencyError::WithoutPayload)), "{again:?}");
    assert_eq!(till.runs.load(Ordering::SeqCst), 3);
}

/// A value of which reading it back panics.
#[derive(Debug, Serialize)]
struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("it is read back")
    }
}

#[idempotent(key = "k", scope = global, client = once)]
async fn panicking(once: &Idempotency, till: &Till) -> Outcome<Panics> {
    till.run();
    Ok(Panics)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_panics_when_it_is_kept_has_happened_and_is_never_made_again() {
    let (once, till) = (engine(), Till::default());
    panicking(&once, &till).await.unwrap();
    let again = panicking(&once, &till).await;
    assert!(matches!(again, Err(IdempotencyError::WithoutPayload)), "{again:?}");
    assert_eq!(till.runs.load(Ordering::SeqCst), 1);
}

#[idempotent(key = "k", scope = global, client = once, name = "n")]
async fn text(once: &Idempotency) -> Outcome<String> {
    Ok("text".to_owned())
}

#[idempotent(key = "k", scope = global, client = once, name = "n")]
async fn number(once: &Idempotency) -> Outcome<u8> {
    Ok(1)
}

#[tokio::test(start_paused = true)]
async fn a_value_of_another_type_is_an_error_and_no_guess() {
    let once = engine();
    text(&once).await.unwrap();
    let unreadable = number(&once).await;
    assert!(matches!(unreadable, Err(IdempotencyError::Unreadable { .. })), "{unreadable:?}");
}

#[idempotent(key = "k", scope = global, client = once, fingerprint = map)]
async fn odd(once: &Idempotency, map: HashMap<(u8, u8), u8>) -> Outcome<usize> {
    unreachable!("nothing runs: {map:?}")
}

#[tokio::test(start_paused = true)]
async fn a_fingerprint_that_can_not_be_made_runs_nothing() {
    let odd = odd(&engine(), [((1, 2), 3)].into()).await;
    assert!(matches!(odd, Err(IdempotencyError::Fingerprint { .. })), "{odd:?}");
}

#[idempotent(key = key, scope = scope, client = once, ttl = ttl)]
async fn by_expression(
    once: Option<Idempotency>,
    key: Key,
    scope: Scope,
    ttl: Duration,
    till: &Till,
) -> Outcome<u32> {
    let _ = (&key, &scope);
    Ok(till.run())
}

#[tokio::test(start_paused = true)]
async fn key_scope_and_life_may_be_expressions() {
    let (once, till) = (engine(), Till::default());
    let call = |ttl| {
        let key = Key::new("k").unwrap();
        by_expression(Some(once.clone()), key, Scope::Global, Duration::from_secs(ttl), &till)
    };
    assert_eq!((call(60).await.unwrap(), call(60).await.unwrap()), (1, 1));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(call(60).await.unwrap(), 2);
    // A life of nothing is refused by the engine, not by a panic.
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(matches!(call(0).await, Err(IdempotencyError::Begin(error)) if error.is_rejected()));
}

#[idempotent(key = "{id}", scope = global)]
async fn by_global(id: String) -> Outcome<String> {
    Ok(id)
}

#[tokio::test]
async fn without_a_client_the_installed_one_is_used_and_without_that_it_is_an_error() {
    let none = by_global("k".to_owned()).await;
    let Err(IdempotencyError::Begin(BeginError::Rejected(why))) = none else { panic!("{none:?}") };
    assert_eq!(why, BeginRejection::NoClient);
    let once = engine();
    once.clone().install_global().unwrap();
    assert!(once.clone().install_global().is_err());
    assert_eq!(by_global("k".to_owned()).await.unwrap(), "k");
    assert!(by_global(String::new()).await.is_err(), "an empty key");
    assert_eq!(once.stats().executed, 1);
}

#[idempotent(key = "nightly:{due}", scope = global, client = once, on_unknown = "refuse")]
async fn nightly(once: &Idempotency, till: &Till, due: u64) -> Outcome<u32> {
    let _ = due;
    Ok(till.run())
}

/// The recipe for a job that two nodes start by one schedule: the second is late by more than the
/// job takes, so the lock is free for it.
#[tokio::test(start_paused = true)]
async fn a_job_by_the_time_at_which_it_is_due_runs_once_where_a_lock_alone_lets_it_run_twice() {
    let (store, records, till) = (Memory::new(), MemoryRecords::new(), Till::default());
    let node = || LockClient::with_backend(store.clone());
    let (first, second) = (node(), node());
    for due in [1_767_225_600, 1_767_312_000] {
        let runs = till.runs.load(Ordering::SeqCst) + 1;
        for node in [&first, &second] {
            let once = Idempotency::new("tests", node.clone(), records.clone());
            assert_eq!(nightly(&once, &till, due).await.unwrap(), runs);
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
    for node in [&first, &second] {
        assert!(node.lock("nightly").try_acquire().await.unwrap().is_some(), "it is free again");
    }
}

struct Shop {
    once: Idempotency,
    till: Till,
}

trait Pays {
    async fn pay(&self, request: &str) -> Outcome<u32>;
}

impl Pays for Shop {
    #[idempotent(
        key = "{request}", scope = global, client = self.once, fingerprint = (self.name()),
        name = "Pays::pay"
    )]
    async fn pay(&self, request: &str) -> Outcome<u32> {
        let _ = request;
        Ok(self.till.run())
    }
}

impl Shop {
    fn name(&self) -> &'static str {
        "shop"
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn pay(&self, request: &str) -> Outcome<u32>;
}

#[async_trait::async_trait]
impl Boxed for Shop {
    #[idempotent(
        key = "boxed:{request}", scope = global, client = self.once, name = "Boxed::pay"
    )]
    async fn pay(&self, request: &str) -> Outcome<u32> {
        let _ = request;
        Ok(self.till.run())
    }
}

#[tokio::test(start_paused = true)]
async fn it_stands_on_methods_and_traits() {
    let shop = Shop { once: engine(), till: Till::default() };
    for _ in 0..2 {
        assert_eq!(Pays::pay(&shop, "r").await.unwrap(), 1);
    }
    for _ in 0..2 {
        assert_eq!(Boxed::pay(&shop, "r").await.unwrap(), 2);
    }
}

trait Step {
    async fn run(&self, saga: &str) -> Outcome<String>;
}

struct Reserve(Idempotency);

impl Step for Reserve {
    #[idempotent(key = "{saga}", scope = global, client = self.0, name = "Reserve::run")]
    async fn run(&self, saga: &str) -> Outcome<String> {
        let _ = saga;
        Ok("reserved".to_owned())
    }
}

struct Charge(Idempotency);

impl Step for Charge {
    #[idempotent(key = "{saga}", scope = global, client = self.0, name = "Charge::run")]
    async fn run(&self, saga: &str) -> Outcome<String> {
        let _ = saga;
        Ok("charged".to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn two_methods_of_one_name_with_one_key_are_a_mismatch_and_no_mix_up() {
    let once = engine();
    assert_eq!(Reserve(once.clone()).run("saga-1").await.unwrap(), "reserved");
    let other = Charge(once).run("saga-1").await;
    assert!(matches!(other, Err(IdempotencyError::Mismatch)), "{other:?}");
}
