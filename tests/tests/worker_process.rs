//! The worker process does what it is told, and can be frozen and killed.

#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::time::Duration;

use tests::checker::Checker;
use tests::history::read;
use tests::redis::RedisServer;
use tests::resource::FencedRegister;
use tests::worker::Worker;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// A worker on the in-memory store of its own process, with a Redis to write to.
fn worker(resource: &RedisServer, more: &[&str]) -> Worker {
    let url = resource.url();
    let arguments = [&["--url", "memory:", "--resource", &url], more].concat();
    Worker::spawn(WORKER, &arguments)
}

#[tokio::test]
async fn a_worker_acquires_writes_and_releases() {
    let redis = RedisServer::start();
    let mut worker = worker(&redis, &[]);
    let grant = worker.ask("acquire order:1 100").await;
    assert!(grant.ok && grant.token() > 0, "a finding of safety: {grant:?}");
    assert_eq!(worker.ask("is_held").await.held, Some(true));
    assert_eq!(worker.ask("try order:1").await.error(), "busy");
    assert_eq!(worker.ask("acquire order:1 10").await.error(), "timeout");
    assert!(worker.ask("write order:1").await.accepted());
    let stats = worker.ask("stats").await.value.unwrap();
    assert_eq!((&stats["acquired"], &stats["held"]), (&1.into(), &1.into()));
    assert_eq!(worker.ask("release").await.token(), grant.token());
    assert_eq!(worker.ask("release").await.error(), "not_held");
    assert!(worker.ask("try order:1").await.token() > grant.token());
    worker.ask("drop").await.expect_success();
    assert_eq!(worker.ask("is_held").await.held, Some(false));
    worker.send("exit");
    assert!(worker.ended().await.success());
}

#[tokio::test]
async fn a_command_that_makes_no_sense_is_answered_as_such() {
    let redis = RedisServer::start();
    let mut worker = worker(&redis, &[]);
    for command in ["", "fly", "acquire k", "acquire k soon", "release", "write nowhere"] {
        assert_eq!(worker.ask(command).await.error(), "usage", "{command:?}");
    }
    assert_eq!(worker.ask("acquire  0").await.error(), "usage");
}

#[tokio::test]
async fn a_stale_write_is_refused_by_the_register() {
    let redis = RedisServer::start();
    let register = FencedRegister::connect(&redis.url()).await.unwrap();
    let mut worker = worker(&redis, &[]);
    let token = worker.ask("acquire k 100").await.token();
    assert!(worker.ask("write").await.accepted());
    assert!(register.write("k", token + 1, "successor").await.unwrap());
    let refused = worker.ask("write").await;
    assert!(refused.ok && !refused.accepted(), "{refused:?}");
    assert!(register.write("k", token + 1, "successor").await.unwrap(), "the same token again");
}

#[tokio::test]
async fn a_frozen_worker_answers_nothing_until_it_is_woken() {
    let redis = RedisServer::start();
    let mut worker = worker(&redis, &[]);
    worker.ask("acquire k 100").await.expect_success();
    worker.freeze();
    worker.send("is_held");
    assert_eq!(worker.reply_within(Duration::from_millis(50)).await, None);
    worker.thaw();
    assert_eq!(worker.reply().await.held, Some(true));
}

#[tokio::test]
async fn a_blocked_runtime_answers_after_the_block() {
    let redis = RedisServer::start();
    let mut worker = worker(&redis, &[]);
    let before = worker.ask("acquire k 100").await.t_ns;
    let after = worker.ask("block 30").await.t_ns;
    assert!(after - before >= 30_000_000);
}

#[tokio::test]
async fn a_terminated_worker_ends_with_success_and_a_killed_one_does_not() {
    let redis = RedisServer::start();
    let mut polite = worker(&redis, &["--grace-ms", "10"]);
    polite.ask("acquire k 100").await.expect_success();
    polite.terminate();
    polite.reply().await.expect_success();
    assert!(polite.ended().await.success());

    let mut killed = worker(&redis, &[]);
    killed.ask("acquire k 100").await.expect_success();
    let pid = killed.pid();
    killed.kill();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn a_worker_that_cannot_connect_says_so() {
    let redis = RedisServer::start();
    let mut worker = Worker::spawn(WORKER, &["--url", "nonsense://x", "--resource", &redis.url()]);
    assert!(!worker.reply().await.ok);
    assert!(!worker.ended().await.success());
}

#[tokio::test]
async fn contending_tasks_leave_a_history_that_holds() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let mut worker = worker(&redis, &["--process", "p1", "--history", path.to_str().unwrap()]);
    let counts = worker.ask("contend k 8 25 0 5000").await.value.unwrap();
    assert_eq!((&counts["acquired"], &counts["writes_accepted"]), (&200.into(), &200.into()));
    let events = read(&path).unwrap();
    assert_eq!(events.len(), 200 * 6);
    let report = Checker::new().exclusive().check(&events).unwrap();
    assert_eq!((report.grants, report.writes_accepted), (200, 200));
}
