//! The conformance suite of record stores over the one in memory, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use lock_core::idempotency::{MemoryRecords, RecordStore};
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};

#[derive(Debug, Default)]
struct InMemory(MemoryRecords);

impl RecordSubject for InMemory {
    fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>> {
        let store: Arc<dyn RecordStore> = Arc::new(self.0.clone());
        Box::pin(async { store })
    }

    fn slack(&self) -> Duration {
        Duration::from_millis(100)
    }
}

lock_core::record_conformance_tests!([start_paused = true], InMemory::default());

#[tokio::test(start_paused = true)]
async fn one_store_passes_all_of_it_in_a_row() {
    let subject = InMemory::default();
    records::all(&subject).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(subject.0.is_empty(), "{} records have lived their time", subject.0.len());
}
