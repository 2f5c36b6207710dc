//! Holders that are stopped.

use tests::actor::Actor;
use tests::checker::Checker;
use tests::history::{Recorder, read};
use tests::redis::RedisServer;
use tests::worker::Worker;

use crate::support::*;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// F01 (V1, V2, V3): a holder that is stopped past its sessions is succeeded under a higher token.
/// It learns of its loss before it does anything else, and what it still writes is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_holder_is_succeeded_at_a_majority_and_what_it_writes_is_refused() {
    let (servers, resource) = (Servers::start().await, RedisServer::start());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let locks = connect(&url("", &servers.all, LONG)).await.unwrap();
    settled(&locks).await;
    let recorder = Recorder::to_file(&path).unwrap();
    let successor = Actor::new(&recorder, "successor", &locks, resource.url());
    let (at, resource, history) =
        (url("", &servers.all, SHORT), resource.url(), path.to_str().unwrap());
    let arguments = ["--url", &at, "--resource", &resource, "--history", history];
    let more = ["--process", "holder", "--lease-ms", "1000"];
    let mut holder = Worker::spawn(WORKER, &[&arguments[..], &more].concat());
    let old = holder.ask("acquire k 5000").await.token();
    assert!(holder.ask("write").await.accepted());
    holder.freeze();
    let (guard, took) = successor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    assert!(took < SHORT * 2 + ms(1_500), "{took:?}");
    assert!(guard.token().get() > old && successor.write(&guard).await);
    // The first thing that it does when it goes on.
    holder.send("is_held");
    holder.thaw();
    assert_eq!(holder.reply().await.held, Some(false));
    assert!(!holder.ask("write").await.accepted());
    successor.release(guard).await.unwrap();
    // Its client has new sessions by the next acquire.
    assert!(holder.ask("acquire k 9000").await.token() > old);
    assert!(holder.ask("release").await.ok);
    holder.send("exit");
    holder.ended().await;
    let report = Checker::new().slack(ms(1_000)).check(&read(&path).unwrap());
    let report = report.unwrap_or_else(|violations| panic!("{violations:#?}"));
    assert_eq!((report.grants, report.writes_accepted, report.writes_refused), (3, 2, 1));
}
