//! The conformance suite.

use std::time::Duration;

use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};

use crate::support::{LONG, Servers};

impl Subject for Servers {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async { AnyBackend::new(self.quorum(LONG)) })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = self.left();
        Box::pin(async move { left })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_pass_all_of_it_in_a_row() {
    conformance::all(&Servers::start().await).await;
}
