//! Input that is refused before anything is sent.

use std::time::Duration;

use bytes::Bytes;
use lock_core::Key;
use lock_core::LockClient;
use lock_core::backend::{
    Attempt, Backend, Capabilities, Claim, ClaimId, Fault, Renewal, Terms, Withdrawal,
};
use lock_core::idempotency::{
    BeginRejection, Begun, Duplicates, Idempotency, MemoryRecords, RecordStore, Scope,
};
use lock_core::test_util::records::RecordVerb;
use lock_core::view::Inspection;

use crate::{ASKED, Stage, Test, begin, ms, run, secs};

#[tokio::test(start_paused = true)]
async fn what_is_out_of_bounds_is_refused_by_name_and_nothing_is_sent() {
    let stage = Stage::new();
    let once = &stage.once;
    let day = secs(24 * 60 * 60);
    let cases = [
        (once.clone().with_secret("short"), "secret"),
        (once.clone().with_old_secret("short"), "secret"),
        (Idempotency::new("", LockClient::memory(), MemoryRecords::new()), "service"),
        (Idempotency::new("s".repeat(129), LockClient::memory(), MemoryRecords::new()), "service"),
        (once.clone().with_record_ttl(ms(999)), "record_ttl"),
        (once.clone().with_in_flight_ttl(ms(29_999)), "in_flight_ttl"),
        (once.clone().with_duplicates(Duplicates::Wait(day + ms(1))), "duplicates"),
        (once.clone().with_lease(Duration::ZERO), "lease"),
    ];
    for (once, name) in cases {
        let error = begin(&once).await.unwrap_err();
        assert!(error.is_rejected() && !error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
    for (scope, key) in [(Scope::of(""), &b"key"[..]), (Scope::Global, b"")] {
        let error = once.begin(&scope, key, ASKED).await.unwrap_err();
        assert!(error.is_rejected(), "{error}");
    }
    assert!(once.check().is_ok());
    assert_eq!(stage.script.calls_of(RecordVerb::Claim).len(), 0);
    assert!(stage.records.is_empty());
    stage.is_clean(0, secs(1)).await;
}

/// A lock store without fencing tokens.
#[derive(Debug)]
struct Unfenced;

struct NoClaim;

impl Backend for Unfenced {
    type Claim = NoClaim;

    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    fn claim(&self, _: &Key, _: ClaimId, _: Terms) -> NoClaim {
        NoClaim
    }

    async fn inspect(&self, _: &Key) -> Result<Inspection, Fault> {
        Ok(Inspection::default())
    }
}

impl Claim for NoClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        Ok(Attempt::Blocked { ahead: None, recheck: secs(1) })
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        Ok(Renewal::Lost)
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        Ok(Withdrawal::NotHeld)
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_without_fencing_tokens_is_refused_at_once() {
    let once = Idempotency::new("tests", LockClient::with_backend(Unfenced), MemoryRecords::new());
    assert_eq!(once.check(), Err(BeginRejection::NoFencing));
    assert!(begin(&once).await.unwrap_err().is_rejected());
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_printed_shows_the_key_the_scope_or_the_secret() -> Test {
    let stage = Stage::new();
    let once = stage.once.clone().with_secret("a secret of the service");
    let (scope, key) = (Scope::of("tenant-7"), b"key-7");
    let begun = once.begin(&scope, key, ASKED).await?;
    let mut text = format!("{once:?} {begun:?} {:?}", once.locks().busy_keys());
    drop(begun);
    stage.script.always(
        RecordVerb::Peek,
        lock_core::test_util::Act::Err(lock_core::backend::FaultKind::Refused),
    );
    let error = once.begin(&scope, key, ASKED).await.unwrap_err();
    text += &format!("{error} {error:?}");
    stage.script.heal();
    let Begun::Run(execution) = once.begin(&scope, key, ASKED).await? else { panic!("it runs") };
    execution.complete(Bytes::from_static(b"card 4242")).await?;
    let begun = once.begin(&scope, key, ASKED).await?;
    text += &format!("{begun:?} {once:?} {:?} {:?}", stage.records, stage.script);
    // A payload as the derived `Debug` of bytes has it, too.
    for told in ["tenant-7", "key-7", "a secret", "card 4242", "52, 50, 52, 50"] {
        assert!(!text.contains(told), "{told} in {text}");
    }
    assert!(text.contains(&once.record_id(&scope, key).to_string()), "{text}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_full_memory_refuses_new_keys_and_forgets_none() -> Test {
    let records = MemoryRecords::new().with_records_max(1);
    let once = Idempotency::new("tests", LockClient::memory(), records.clone());
    run(&once).await.complete(Bytes::from_static(b"paid")).await?;
    let error = once.begin(&Scope::Global, b"other", ASKED).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert_eq!(crate::replay(&once).await, "paid");
    assert_eq!(records.len(), 1);
    let _: &dyn RecordStore = &records;
    Ok(())
}
