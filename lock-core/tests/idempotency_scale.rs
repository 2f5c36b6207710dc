//! Many keys, in a process of their own, as its memory is measured.

use std::time::Duration;

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{Begun, Fingerprint, Idempotency, MemoryRecords, Scope};
use tokio::time::sleep;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const SECOND: Duration = Duration::from_secs(1);

/// Memory of this process, in KiB, be it swapped out. Pages of its program come and go.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let kib = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    kib("RssAnon:") + kib("VmSwap:")
}

/// Every key leaves a record of a second; the clock goes on by a second for each thousand of them.
async fn keys(once: &Idempotency, range: std::ops::Range<u64>) -> Test {
    let asked = Fingerprint::new([1; 32]);
    for key in range {
        match once.begin(&Scope::Global, &key.to_be_bytes(), asked).await? {
            Begun::Run(execution) if key % 2 == 0 => execution.abort().await?,
            Begun::Run(execution) => execution.complete(Bytes::from_static(b"paid")).await?,
            other => panic!("{key}: {other:?}"),
        }
        if key % 1_000 == 0 {
            sleep(SECOND).await;
        }
    }
    Ok(())
}

/// How many keys, if [`KEYS_VARIABLE`] does not say otherwise: a million take minutes without
/// optimisation.
const KEYS: u64 = 60_000;

/// The environment variable for more.
const KEYS_VARIABLE: &str = "IDEMPOTENCY_KEYS";

#[tokio::test(start_paused = true)]
async fn distinct_keys_without_end_leave_the_memory_as_it_was() -> Test {
    let many = match std::env::var(KEYS_VARIABLE) {
        Ok(text) => text.parse()?,
        Err(_) => KEYS,
    };
    let records = MemoryRecords::new();
    let once =
        Idempotency::new("tests", LockClient::memory(), records.clone()).with_record_ttl(SECOND);
    keys(&once, 0..many / 6).await?;
    let before = memory_kib();
    keys(&once, many / 6..many).await?;
    let after = memory_kib();
    assert!(after < before + 4 * 1_024, "{before} KiB grew to {after} KiB");
    assert!(records.len() <= 1_000, "{}", records.len());
    assert_eq!((once.stats().busy, once.stats().executed), (0, many));
    Ok(())
}
