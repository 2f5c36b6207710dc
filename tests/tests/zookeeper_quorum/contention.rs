//! Clients that want the same keys, and what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use lock_core::backend::{Enrolment, Member, ZooKeeper};
use lock_core::quorum::Quorum;
use lock_core::{LockClient, LockOptions};
use tests::checker::{Checker, Report};
use tests::history::{Fun, Process, Recorder};
use tests::proxy::Proxy;
use tests::wait::eventually;
use tokio::task::JoinHandle;

use crate::support::*;

const CLIENTS: usize = 3;

/// The longest lease of these clients.
pub(crate) const LEASE: Duration = ms(3_000);

/// How late an answer at the end of a budget may come on a busy machine.
const LATE: Duration = ms(1_000);

/// One process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) members: Vec<ZooKeeper>,
    pub(crate) locks: LockClient,
}

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Contention {
    pub(crate) clients: Vec<Client>,
    history: Recorder,
    grants: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    users: Vec<JoinHandle<()>>,
}

pub(crate) fn enrolment(nonce: u64, floor: u64) -> Enrolment {
    Enrolment {
        quorum: "the first".into(),
        members: 3,
        lease_max: LEASE,
        nonce,
        life: String::new(),
        ready_at: Duration::ZERO,
        floor: Some(floor),
    }
}

/// A client of servers that have the enrolment of number 0.
pub(crate) fn client(servers: &Servers) -> Client {
    client_of(servers.members(SHORT))
}

fn client_of(members: Vec<ZooKeeper>) -> Client {
    for member in &members {
        member.serve_under(Some(&enrolment(0, 0)));
    }
    let quorum = Quorum::new(members.clone()).expect("three");
    Client { members, locks: LockClient::with_backend(quorum) }
}

/// Enrols the servers.
pub(crate) async fn enrol(servers: &Servers) {
    for member in servers.members(SHORT) {
        assert!(member.enrol(None, &enrolment(0, 0)).await.expect("an answer"));
    }
}

/// Takes keys and gives them back until told to end.
async fn use_locks(
    locks: LockClient,
    process: Process,
    grants: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
) {
    while !ended.load(SeqCst) {
        let key = ["k0", "k1"][fastrand::usize(..2)];
        let wait = fastrand::u64(500..3_000);
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
        tokio::time::sleep(ms(fastrand::u64(..4))).await;
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
        enrol(servers).await;
        Self::of((0..CLIENTS).map(|_| client(servers)).collect())
    }

    /// Each client has links of its own.
    pub(crate) async fn behind(servers: &Servers) -> (Self, Vec<Arc<Proxy>>) {
        enrol(servers).await;
        let (mut clients, mut links) = (Vec::new(), Vec::new());
        for _ in 0..CLIENTS {
            let own = servers.all.iter().map(|server| Arc::new(Proxy::zookeeper(server.addr())));
            let own: Vec<_> = own.collect();
            let members = own.iter().map(|link| member_at(&link.url(), SHORT));
            clients.push(client_of(members.collect()));
            links.extend(own);
        }
        (Self::of(clients), links)
    }

    fn of(clients: Vec<Client>) -> Self {
        let (history, grants, ended) = (Recorder::in_memory(), Arc::default(), Arc::default());
        let mut users = Vec::new();
        for (nth, client) in clients.iter().enumerate() {
            for task in 0..2 {
                let process = history.process(format!("{nth}/{task}"));
                let (grants, ended) = (Arc::clone(&grants), Arc::clone(&ended));
                users.push(tokio::spawn(use_locks(client.locks.clone(), process, grants, ended)));
            }
        }
        Self { clients, history, grants, ended, users }
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
