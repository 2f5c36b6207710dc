//! The conformance suite over the memory backend, on a paused clock.

use std::time::Duration;

use lock_core::Mode;
use lock_core::memory::Memory;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};

#[derive(Debug, Default)]
struct InMemory(Memory, Mode);

impl Subject for InMemory {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async { AnyBackend::new(self.0.clone()) })
    }

    fn mode(&self) -> Mode {
        self.1
    }

    fn slack(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let keys = self.0.keys();
        Box::pin(async move { if keys == 0 { vec![] } else { vec![format!("{keys} keys")] } })
    }
}

lock_core::conformance_tests!([start_paused = true], InMemory::default());

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [start_paused = true],
        InMemory(Memory::new(), Mode::Permit { of: 1 })
    );
}

#[tokio::test(start_paused = true)]
async fn one_store_passes_all_of_it_in_a_row() {
    conformance::all(&InMemory::default()).await;
}
