//! A process that is killed at each request of an execution: the effect and the record are both
//! there, or neither is, and a repeat is answered right.

use std::process::Stdio;

use lock_core::LockClient;
use lock_core::idempotency::{Begun, Fingerprint, Idempotency, Scope};
use lock_core::sql::SqlRecords;
use tests::proxy::{Action, Match, Proxy};
use tests::wait::{eventually, within};
use tokio::process::{Child, Command};

use crate::support::Shop;

/// As in `till_postgres.rs`.
const SECRETS: [&str; 2] = ["the old one of it", "the new secret of it"];

/// How many are tried at a time.
const AT_ONCE: usize = 4;

struct Till {
    shop: Shop,
    proxy: Proxy,
}

impl Till {
    async fn new() -> Self {
        let shop = Shop::new().await;
        let name = &shop.name;
        shop.server.sql(format!(
            "CREATE TABLE {name}.accounts (id bigint PRIMARY KEY, balance bigint NOT NULL); \
             INSERT INTO {name}.accounts VALUES (1, 100); \
             GRANT SELECT, UPDATE ON {name}.accounts TO {name}"
        ));
        let proxy = Proxy::postgres(shop.server.addr());
        Self { shop, proxy }
    }

    fn start(&self, mode: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_till_postgres"))
            .args(["--port", &self.proxy.addr().port().to_string()])
            .args(["--user", &self.shop.name, "--mode", mode])
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("a process")
    }

    /// Lets one come to its end.
    async fn run(&self, mode: &str) {
        let status = within("its end", self.start(mode).wait()).await.expect("a process");
        assert!(status.success(), "{mode}: {status}");
    }

    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.shop.pool).await.expect("a number")
    }

    async fn books(&self) -> (i64, i64) {
        let payments = self.shop.payments().await;
        (payments, 100 - self.number("SELECT balance FROM accounts").await)
    }

    /// A later process, whose locks know nothing of the one that was killed.
    fn once(&self, secret: &str) -> Idempotency {
        let records = SqlRecords::with_pool(&self.shop.pool);
        Idempotency::new("till", LockClient::memory(), records).with_secret(secret)
    }

    /// The server has seen that the process is gone, and has ended what that had begun.
    async fn is_settled(&self) {
        let sessions = format!(
            "SELECT pid FROM pg_stat_activity WHERE usename = '{}' AND application_name = 'till'",
            self.shop.name
        );
        eventually("its sessions are gone", || self.shop.server.sql(&*sessions).is_empty()).await;
    }
}

async fn begin(once: &Idempotency) -> Begun {
    let begun = once.begin(&Scope::of("tests"), b"payment", Fingerprint::new([1; 32])).await;
    begun.expect("a table that answers")
}

/// Kills a process at one request, before the server has it or behind its answer, and looks at what
/// it has left. Tells whether it had happened; nothing where the process had come to its end.
async fn killed_at(mode: &str, request: Match, action: Action) -> Option<bool> {
    let till = Till::new().await;
    let at = format!("{mode}, {action:?} {request:?}");
    let trap = till.proxy.trap(request, action);
    let mut process = till.start(mode);
    let ended = tokio::select! {
        () = trap.sprung() => false,
        status = process.wait() => status.expect("a process").success(),
    };
    // It may be at its end where the last word of all was caught: a farewell has no answer.
    drop(process.kill().await);
    // The request or answer that was on its way arrives all the same.
    drop(trap);
    till.is_settled().await;

    let books = till.books().await;
    let done = till.number("SELECT count(*) FROM lock_records WHERE state = 'done'").await;
    let secrets = if mode == "rotation" { &SECRETS[..] } else { &SECRETS[..1] };
    let all = i64::try_from(secrets.len()).expect("two");
    let happened = books == (1, 5) && done == all;
    let nothing = books == (0, 0) && done == 0;
    assert!(happened || (nothing && !ended), "{at}: {books:?} with {done} of {all} records");
    if mode == "layer" {
        // Its fingerprint is of a request, so this is another one: it is known, or free.
        let begun = begin(&till.once(SECRETS[0])).await;
        assert!(matches!(begun, Begun::Run(_) | Begun::Mismatch), "{at}: {begun:?}");
        drop(begun);
        till.run(mode).await;
    } else {
        for secret in secrets {
            match begin(&till.once(secret)).await {
                Begun::Replay(payload) => assert!(happened && payload == "paid", "{at}"),
                Begun::Run(execution) => {
                    assert!(nothing, "{at}");
                    drop(execution.abort().await);
                }
                other => panic!("{at}: {other:?}"),
            }
        }
        if nothing {
            till.run(mode).await;
        }
    }
    assert_eq!(till.books().await, (1, 5), "{at}: after the repeat");
    (!ended).then_some(happened)
}

async fn at_each_request(mode: &'static str, action: Action) {
    let till = Till::new().await;
    till.run(mode).await;
    let requests = till.proxy.counters().requests;
    assert!(requests > 15, "{mode} has {requests} requests only");
    let mut happened = Vec::new();
    for chunk in (0..requests).collect::<Vec<_>>().chunks(AT_ONCE) {
        let nth = |request: &u64| Match::any().after(*request);
        let tries = chunk.iter().map(|request| killed_at(mode, nth(request), action));
        happened.extend(futures_util::future::join_all(tries).await);
    }
    // A process on a busy machine may make some requests more or less than the one that was counted.
    let commit = Match::verb("QUERY").containing("COMMIT");
    let more = (requests..requests + 10).map(|request| Match::any().after(request));
    for request in std::iter::once(commit).chain(more) {
        if !happened.contains(&Some(true)) {
            happened.push(killed_at(mode, request, action).await);
        }
    }
    let both = [true, false].iter().all(|it| happened.contains(&Some(*it)));
    assert!(both, "{mode}: {happened:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_behind_each_answer_of_a_completion_by_hand() {
    at_each_request("by-hand", Action::HoldReply).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_behind_each_answer_of_a_completion_with_its_commit() {
    at_each_request("commit", Action::HoldReply).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_with_each_request_of_a_completion_with_its_commit_on_its_way() {
    at_each_request("commit", Action::HoldRequest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_behind_each_answer_while_a_secret_is_replaced() {
    at_each_request("rotation", Action::HoldReply).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_behind_each_answer_of_a_handler_behind_the_layer() {
    at_each_request("layer", Action::HoldReply).await;
}
