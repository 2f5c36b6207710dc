//! The flash sale through a real Redis, in several processes.

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tests::redis::RedisServer;

/// Built by `cargo test --workspace`, beside the tests.
fn flash_sale() -> PathBuf {
    let mut path = std::env::current_exe().expect("a test has a path");
    path.pop();
    path.pop();
    path.push("flash-sale");
    assert!(path.exists(), "no {}: run `cargo build -p examples` first", path.display());
    path
}

#[test]
fn three_processes_sell_a_hundred_items_once_each_and_leave_only_the_fence() {
    let server = RedisServer::start();
    let output = Command::new(flash_sale())
        .args(["--locks", &server.url(), "--processes", "3", "--json"])
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
    for key in server.keys() {
        assert!(key.name.ends_with(":fence"), "{} was left behind", key.name);
    }
}
