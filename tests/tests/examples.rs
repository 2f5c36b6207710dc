//! The flash sale and the election in several processes, through a real Redis, ZooKeeper,
//! PostgreSQL and MariaDB.

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tests::mariadb::MariaDbServer;
use tests::postgres::PostgresServer;
use tests::redis::RedisServer;
use tests::wait::eventually;
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};

/// A program of the package `examples`, built by `cargo test --workspace` beside the tests.
fn program(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("a test has a path");
    path.pop();
    path.pop();
    path.push(name);
    assert!(path.exists(), "no {}: run `cargo build -p examples` first", path.display());
    path
}

/// Several processes sell a hundred items to four hundred buyers.
fn sells_each_item_once(locks: &str, processes: &str) {
    let output = Command::new(program("flash-sale"))
        .args(["--locks", locks, "--processes", processes, "--json"])
        .args(["--buyers", "400", "--stock", "100"])
        .output()
        .expect("the flash sale starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let table: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(table["sold"], 100, "{table}");
    assert_eq!(table["refused"], 300, "{table}");
    assert_eq!((&table["oversold"], &table["duplicates"]), (&0.into(), &0.into()), "{table}");
    assert!(table["handoffs_remote"].as_u64() > Some(0), "{table}");
}

#[test]
fn redis_serves_three_processes_and_keeps_only_the_clock() {
    let server = RedisServer::start();
    sells_each_item_once(&server.url(), "3");
    for key in server.keys() {
        assert!(key.is_clock(), "a finding of safety: {} was left behind", key.name);
    }
}

#[test]
fn postgres_serves_four_processes_and_nobody_holds_or_waits_then() {
    let server = PostgresServer::start();
    sells_each_item_once(&server.url_as("postgres"), "4");
    let busy = "SELECT name FROM lock_status WHERE status = 'held' OR waiting > 0";
    assert!(server.sql(busy).is_empty());
}

#[test]
fn mariadb_serves_four_processes_and_nobody_holds_or_waits_then() {
    let server = MariaDbServer::start();
    sells_each_item_once(&server.url_as("owner"), "4");
    let busy = "SELECT name FROM lock_status WHERE status = 'held' OR waiting > 0";
    assert!(server.sql(busy).is_empty());
}

#[tokio::test]
async fn zookeeper_serves_three_processes_and_keeps_nothing() {
    let server = ZooKeeperServer::with(ZooKeeperOptions::new().tick_ms(500));
    sells_each_item_once(&(server.url() + "/sale?session=2s"), "3");
    // The sessions of processes that ended without a farewell too.
    eventually("nothing is left", || server.tree("/").is_empty()).await;
}

/// Three processes, of which the leader is killed: another leads under a greater token, and what the
/// dead one had sent is refused.
fn elects_another(locks: &str) {
    let output = Command::new(program("examples/election")).arg(locks).output();
    let output = output.expect("the example starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("is dead") && said.contains("is refused"), "{said}");
}

#[test]
fn a_leader_over_redis_that_is_killed_is_followed_by_another() {
    elects_another(&RedisServer::start().url());
}

#[test]
fn a_leader_over_zookeeper_that_is_killed_is_followed_by_another() {
    let server = ZooKeeperServer::with(ZooKeeperOptions::new().tick_ms(500));
    elects_another(&(server.url() + "/jobs?session=2s"));
}
