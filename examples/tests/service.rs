//! Runs the service with everything on as a user does: it serves a load, its metrics move, and it
//! ends with nothing left.

use std::process::{Command, Output};

fn service(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_service")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_load_moves_what_the_dashboard_shows_and_the_service_ends_with_nothing_left() {
    let output = service(&["--seconds", "1"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout} {stderr}");
    for moved in [
        "lock_wait_seconds_count{outcome=\"granted\"}",
        "lock_hold_seconds_count",
        "lock_handoffs_total{kind=\"local\"}",
        "lock_store_seconds_count{verb=\"attempt\",outcome=\"granted\"}",
        "idempotency_requests_total{outcome=\"executed\"}",
        "idempotency_requests_total{outcome=\"replayed\"}",
    ] {
        assert!(stdout.contains(moved), "no {moved} in {stdout}");
    }
    for answered in ["ship", "sell", "pay", "report", "| repair  | 200", "| repair  | 401"] {
        assert!(stdout.contains(answered), "no {answered} in {stdout}");
    }
    assert!(stdout.contains("all locks given back: true, all records written: true"), "{stdout}");
}

#[test]
fn its_traces_say_what_a_lock_came_to() {
    let output = service(&["--seconds", "1", "--trace"]);
    let stdout = text(&output.stdout);
    for said in ["lock.acquire", "lock.hold", "lock.store", "granted"] {
        assert!(stdout.contains(said), "no {said} among {} lines", stdout.lines().count());
    }
}
