//! F41 under load: processes contend for one key of three servers, and their histories are judged.

use std::time::Duration;

use tests::checker::Checker;
use tests::history::read;
use tests::redis::RedisServer;
use tests::worker::Worker;

use crate::support::*;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// V1, V2, V6: each member in turn is killed and comes back empty, is frozen, and is flushed; the
/// next only when the last is one of a majority again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_hold_while_members_are_lost_one_after_another() {
    let mut servers = Servers::start(3);
    drop(servers.ready().await);
    let resource = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let mut workers = Vec::new();
    for n in 0..3 {
        let name = format!("p{n}");
        let history = folder.path().join(&name).display().to_string();
        let (url, resource) = (servers.url(), resource.url());
        let arguments = [
            "--url",
            &url,
            "--resource",
            &resource,
            "--process",
            &name,
            "--history",
            &history,
            "--lease-ms",
            "1500",
        ];
        let mut worker = Worker::spawn(WORKER, &arguments);
        worker.send("contend k 2 250 1000 15000");
        workers.push((worker, history));
    }
    for (member, how) in [(0, "killed"), (1, "frozen"), (2, "flushed"), (1, "killed")] {
        let before = servers.enrolment(member).expect("a member");
        match how {
            "killed" => servers.all[member].restart(),
            "flushed" => servers.all[member].command(&["FLUSHALL"]),
            _ => {
                servers.all[member].freeze();
                tokio::time::sleep(LEASE_MAX / 2).await;
                servers.all[member].thaw();
                continue;
            }
        }
        servers.repaired(member, &before).await;
    }
    let mut events = Vec::new();
    for (worker, history) in &mut workers {
        let counts = loop {
            if let Some(counts) = worker.reply_within(Duration::from_secs(60)).await {
                break counts;
            }
        };
        assert!(counts.ok, "{counts:?}");
        events.extend(read(history.as_ref()).unwrap());
    }
    let report = Checker::new().slack(ms(2_500)).check(&events).unwrap_or_else(|violations| {
        panic!("{} violations, the first: {:?}", violations.len(), violations.first())
    });
    assert!(report.grants > 1_000, "{report:?}");
    drop(workers);
    tests::wait::eventually("nothing is left", || servers.left().is_empty()).await;
}
