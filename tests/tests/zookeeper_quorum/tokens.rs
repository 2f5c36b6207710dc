//! Tokens grow over every majority, whatever the clocks of the clients and the counters of the
//! members.

use std::time::Duration;

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Fault, MemberClaim, Renewal, Terms,
    TokenBlock, Withdrawal,
};
use lock_core::quorum::Quorum;
use lock_core::view::Inspection;
use lock_core::zookeeper::ZooKeeper;
use tests::wait::within;
use zookeeper_client::CreateMode;

use crate::support::*;

/// A member as a client sees it whose clock is behind.
#[derive(Debug)]
struct Late(ZooKeeper, u64);

struct LateClaim(<ZooKeeper as Backend>::Claim, u64);

impl Backend for Late {
    type Claim = LateClaim;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> LateClaim {
        LateClaim(self.0.claim(key, id, terms), self.1)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        self.0.inspect(key).await
    }
}

impl Claim for LateClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.0.attempt().await
    }

    async fn changed(&mut self) -> Change {
        self.0.changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.0.renew().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.0.withdraw().await
    }
}

impl MemberClaim for LateClaim {
    fn count_from(&mut self, clock: u64) {
        self.0.count_from(clock - self.1);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        self.0.raise(to).await
    }
}

/// An hour in tokens.
const HOUR: u64 = 3_600 * 1_000_000 * 8;

/// One grant, and the way back.
async fn one_grant(locks: &Quorum<Late>, round: u32) -> TokenBlock {
    let terms = Terms { tokens_max: 8, ..Terms::exclusive(Duration::from_secs(60)) };
    let id = ClaimId::from_bits(fastrand::u128(..));
    let mut claim = locks.claim(&Key::new("k").expect("a good key"), id, terms);
    let asking = async {
        loop {
            match claim.attempt().await {
                Ok(Attempt::Granted(grant)) => return grant,
                Ok(Attempt::Blocked { recheck, .. }) => {
                    drop(tokio::time::timeout(recheck, claim.changed()).await);
                }
                Err(fault) => assert!(fault.is_transient(), "round {round}: {fault}"),
            }
        }
    };
    let grant = within("a grant", asking).await;
    let leaving = async { while claim.withdraw().await.is_err() {} };
    within("an answer", leaving).await;
    grant.tokens
}

/// V2: in each round one member is held by a foreign client, as by one of Curator, so that the
/// majority is another each time and the counter of the third lags. The clocks of the three clients
/// are hours apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_every_majority_where_one_counter_lags() {
    tests::chance::begin();
    let servers = Servers::keeping_directories().await;
    let clients: Vec<_> = (0..3)
        .map(|hours| {
            let late = |member| Late(member, hours * HOUR);
            let members = servers.members(LONG).into_iter().map(late);
            Quorum::new(members.collect()).expect("three")
        })
        .collect();
    for server in &servers.all {
        server.create("/k", "", CreateMode::Container);
    }
    let mut given = 0;
    for round in 0..18_u32 {
        let away = &servers.all[fastrand::usize(..SERVERS)];
        let foreign =
            away.create("/k/_c_0-theirs-lock-", "10.0.0.1", CreateMode::EphemeralSequential);
        let tokens = one_grant(&clients[fastrand::usize(..3)], round).await;
        assert!(
            tokens.first().is_some_and(|first| first > given),
            "round {round}: {tokens:?} after {given}"
        );
        given = tokens.last().unwrap();
        assert!(away.delete(&foreign));
    }
}
