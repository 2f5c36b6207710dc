//! Failures of each kind, each where it is asked for: `tests/gate/planted` sees that the gate finds
//! them. Else these tests do nothing.

#![allow(clippy::disallowed_methods)]

use std::process::{Command, Stdio};
use std::time::Duration;

use lock_core::Mode;
use tests::checker::Checker;
use tests::history::Fun;
use tests::redis::{RedisOptions, RedisServer};
use tests::support::{History, connect, ms};

fn is_planted(kind: &str) -> bool {
    std::env::var("PLANTED").is_ok_and(|planted| planted == kind)
}

#[test]
fn an_assertion() {
    assert!(!is_planted("assertion"), "as was asked for");
}

#[test]
fn a_hang() {
    let _server = is_planted("hang").then(RedisServer::start);
    while is_planted("hang") {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_child_that_hangs() {
    if is_planted("child") {
        Command::new("sleep").arg("3600").status().expect("a shell");
    }
}

#[test]
#[expect(clippy::zombie_processes, reason = "it is left on purpose")]
fn a_process_that_is_left() {
    if is_planted("left") {
        Command::new("sleep").arg("3600").stdout(Stdio::null()).spawn().expect("a shell");
    }
}

#[test]
fn a_server_that_does_not_start() {
    if is_planted("server") {
        drop(RedisServer::with(RedisOptions::new().set("no-such-directive", "yes")));
    }
}

/// The process stands still for a while, and the test fails, once.
#[test]
fn a_stall() {
    if is_planted("stall") {
        let once = std::env::var("PLANTED_ONCE").expect("a file");
        let _server = RedisServer::start();
        let stall = format!("kill -STOP {0}; sleep 1.5; kill -CONT {0}", std::process::id());
        Command::new("sh").args(["-c", &stall]).status().expect("a shell");
        assert!(std::fs::remove_file(once).is_err(), "a lease was over");
    }
}

/// Readers are written down as if each were alone.
#[tokio::test]
async fn two_holders() {
    if is_planted("holders") {
        let (server, history) = (RedisServer::start(), History::new());
        let locks = connect(&server.url(), ms(10_000)).await;
        let both = [locks.lock("k").shared().await, locks.lock("k").shared().await];
        for (guard, name) in both.into_iter().zip(["one", "two"]) {
            let process = history.recorder().process(name);
            let call = process.invoke(Fun::Acquire, "k").begin();
            call.granted(Mode::Exclusive, &guard.expect("a reader"));
        }
        history.check(Checker::new().exclusive());
    }
}
