//! The conformance suite over a quorum of stores in this process, on a paused clock.

use std::time::Duration;

use lock_core::memory::Memory;
use lock_core::quorum::{MembershipConfig, Quorum};
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};

#[derive(Debug)]
struct Members(Vec<Memory>);

impl Members {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| Memory::new()).collect())
    }
}

impl Subject for Members {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async { AnyBackend::new(Quorum::new(self.0.clone()).expect("three or more")) })
    }

    fn slack(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let keys: usize = self.0.iter().map(Memory::keys).sum();
        Box::pin(async move { if keys == 0 { vec![] } else { vec![format!("{keys} keys")] } })
    }
}

mod of_three {
    use super::*;
    lock_core::conformance_tests!([start_paused = true], Members::new(3));
}

mod of_five {
    use super::*;
    lock_core::conformance_tests!([start_paused = true], Members::new(5));
}

/// The same, seeing to its members.
#[derive(Debug)]
struct Managed(Members);

impl Subject for Managed {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let config = MembershipConfig::new((0..self.0.0.len()).map(|n| format!("m{n}")));
            let quorum = Quorum::managed(self.0.0.clone(), config).expect("three or more");
            // New stores, which may have lost what an earlier incarnation granted.
            tokio::time::sleep(Duration::from_secs(31)).await;
            AnyBackend::new(quorum)
        })
    }

    fn slack(&self) -> Duration {
        self.0.slack()
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        self.0.left_behind()
    }
}

mod managed {
    use super::*;
    lock_core::conformance_tests!([start_paused = true], Managed(Members::new(3)));
}

#[tokio::test(start_paused = true)]
async fn one_quorum_passes_all_of_it_in_a_row() {
    conformance::all(&Members::new(3)).await;
}
