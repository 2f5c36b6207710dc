//! Clients that want the same keys, and what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fastrand::Rng;
use lock_core::quorum::{MembershipConfig, Quorum};
use lock_core::{LockClient, LockOptions};
use tests::chance;
use tests::checker::{Checker, Report};
use tests::history::{Fun, Process, Recorder};
use tests::wait::eventually;
use tokio::task::JoinHandle;

use crate::support::*;

const CLIENTS: usize = 3;

/// The longest lease of these clients.
pub(crate) const LEASE: Duration = ms(2_000);

/// How late an answer at the end of a budget may come on a busy machine.
const LATE: Duration = ms(1_000);

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Contention {
    _clients: Vec<LockClient>,
    history: Recorder,
    grants: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    users: Vec<JoinHandle<()>>,
}

/// A client of these servers, which sees to them. The first of all waits for a lease.
pub(crate) fn client(servers: &Servers) -> LockClient {
    let config = MembershipConfig::new(["one", "two", "three"]).with_name("of the test");
    let quorum = Quorum::managed(servers.members(SHORT), config.with_lease_max(LEASE));
    LockClient::with_backend(quorum.expect("three"))
}

/// Takes keys and gives them back until told to end.
async fn use_locks(
    locks: LockClient,
    process: Process,
    mut rng: Rng,
    grants: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
) {
    while !ended.load(SeqCst) {
        let key = ["k0", "k1"][rng.usize(..2)];
        let wait = rng.u64(500..3_000);
        let call = process.invoke(Fun::Acquire, key).budget_ms(wait).begin();
        let options = LockOptions::new().with_wait(ms(wait)).with_lease(LEASE);
        let guard = match locks.lock(key).options(options).await {
            Ok(guard) => guard,
            Err(error) if error.is_unavailable() => {
                call.info();
                continue;
            }
            Err(_) => {
                call.fail();
                continue;
            }
        };
        let token = guard.token().get();
        call.ok(Some(token));
        grants.fetch_add(1, SeqCst);
        tokio::time::sleep(ms(rng.u64(..4))).await;
        if !guard.is_held() {
            process.lost(key, token);
        }
        let call = process.invoke(Fun::Release, key).token(token).begin();
        match guard.release().await {
            Ok(()) => call.ok(None),
            Err(_) => call.info(),
        }
    }
}

impl Contention {
    pub(crate) async fn start(servers: &Servers) -> Self {
        let contention = Self::of((0..CLIENTS).map(|_| client(servers)).collect());
        contention.goes_on("with three servers").await;
        contention
    }

    fn of(clients: Vec<LockClient>) -> Self {
        let (history, grants, ended) = (Recorder::in_memory(), Arc::default(), Arc::default());
        let mut users = Vec::new();
        for (nth, client) in clients.iter().enumerate() {
            for task in 0..2 {
                let process = history.process(format!("{nth}/{task}"));
                let (grants, ended) = (Arc::clone(&grants), Arc::clone(&ended));
                let rng = Rng::with_seed(chance::seed() + nth as u64 * 2 + task);
                users.push(tokio::spawn(use_locks(client.clone(), process, rng, grants, ended)));
            }
        }
        Self { _clients: clients, history, grants, ended, users }
    }

    /// Grants go on.
    pub(crate) async fn goes_on(&self, while_: &str) {
        let (before, start) = (self.grants.load(SeqCst), Instant::now());
        eventually(&format!("grants go on {while_}"), || self.grants.load(SeqCst) >= before + 40)
            .await;
        println!("40 grants {while_}: {:?}", start.elapsed());
    }

    /// Ends the users. One held a key at a time, tokens grew, and waits ended.
    pub(crate) async fn end(self) -> Report {
        self.ended.store(true, SeqCst);
        for user in self.users {
            user.await.expect("no panic");
        }
        let report = Checker::new().exclusive().slack(LATE).check(&self.history.events());
        report.unwrap_or_else(|violations| panic!("{violations:#?}"))
    }
}
