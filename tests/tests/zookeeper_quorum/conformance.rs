//! The conformance suite, by clients that see to the members.

use std::time::Duration;
use tests::scene::layouts::ZOOKEEPER_QUORUM;

use lock_core::backend::{Enrolment, Member};
use lock_core::quorum::{MembershipConfig, Quorum};
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};

use crate::support::{LONG, Servers};

/// Longer than any lease of the suite.
const LEASE_MAX: Duration = Duration::from_secs(300);

const NAME: &str = "of the suite";

impl Subject for Servers {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        let config = MembershipConfig::new(["one", "two", "three"]).with_name(NAME);
        let quorum = Quorum::managed(self.members(LONG), config.with_lease_max(LEASE_MAX));
        Box::pin(async { ZOOKEEPER_QUORUM.checked(AnyBackend::new(quorum.expect("three"))) })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = self.left();
        Box::pin(async move { left })
    }
}

/// A new quorum waits for the longest lease; this one is as if it had.
async fn found(servers: &Servers) {
    for (nonce, member) in (0..).zip(servers.members(LONG)) {
        let founded = Enrolment {
            quorum: NAME.into(),
            members: 3,
            lease_max: LEASE_MAX,
            nonce,
            incarnation: String::new(),
            ready_at: Duration::ZERO,
            token_min: Some(0),
        };
        let seen = member.probe().await.expect("a probe");
        assert!(member.enrol(&seen, &founded).await.expect("an answer"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_pass_all_of_it_in_a_row() {
    let servers = Servers::start().await;
    found(&servers).await;
    conformance::all(&servers).await;
}
