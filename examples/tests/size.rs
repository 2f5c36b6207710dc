//! Runs the sizing command as a user does: on a key in memory, and on an endpoint under a layer.

use std::process::{Command, Output};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use lock_core::LockClient;
use lock_tower::LockLayer;
use lock_tower::key::path;
use serde_json::Value;

fn size(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_size")).args(arguments).output().unwrap()
}

/// The figures of a run. A machine that stood still for the budget while it measured has nothing to
/// recommend, and says so: it measures again. The budgets leave a second for a machine that stands still.
/// The loads are far above what is asserted of them: a machine that is busy while the capacity is
/// measured, and is not afterwards, can do three times as much as it seemed. An endpoint's is less, as
/// more requests than that would themselves keep the machine from answering.
fn measured(arguments: &[&str]) -> Value {
    let measure = || -> Value {
        let output = size(&[&["--json"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_str(&text(&output.stdout)).unwrap()
    };
    let mut figures = measure();
    for _ in 0..2 {
        if figures["recommended"].is_null() {
            figures = measure();
        }
    }
    figures
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every tag of the drawing, checked to be closed in the order in which they were opened.
fn tags(svg: &str) -> Vec<&str> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/', '\n']).find(|part| !part.is_empty()).unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.starts_with(['!', '?']) {
            all.push(name);
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    all
}

#[test]
fn a_key_in_memory_gives_a_table_a_recommendation_and_a_drawing() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("curve.svg");
    let output = size(&[
        "--hold",
        "20ms",
        "--budget",
        "500ms",
        "--loads",
        "0.5,10",
        "--seconds",
        "1",
        "--svg",
        svg.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let rows: Vec<Vec<&str>> = stdout
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let [head, below, above] = &rows[..] else { panic!("{stdout}") };
    assert_eq!((head[0], head[2], head[5], head[6]), ("load", "goodput/s", "p99", "refused"));
    assert_eq!((below[0], above[0]), ("0.5 x", "10 x"));
    assert!(rows.iter().all(|row| row.len() == head.len()), "{stdout}");
    assert!(above[6].ends_with('%'), "nobody is refused at ten times the capacity: {stdout}");
    assert!(stdout.contains("Recommended: wait ") && stdout.contains(", retries 1"), "{stdout}");

    let svg = std::fs::read_to_string(svg).unwrap();
    let tags = tags(&svg);
    assert_eq!(tags[0], "svg");
    assert!(tags.iter().filter(|tag| **tag == "polyline").count() >= 5, "{tags:?}");
    for text in ["capacity", "done within the budget", "refused", "done, p99"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn an_overloaded_key_keeps_its_goodput_and_nobody_waits_in_vain() {
    let figures =
        measured(&["--hold", "20ms", "--budget", "1500ms", "--loads", "10", "--seconds", "3"]);
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{figures}"));
    let capacity = number(&figures["capacity_per_s"]);
    // A sleep of 20 ms takes a little longer.
    assert!((10.0..50.5).contains(&capacity), "{figures}");
    assert!(number(&figures["hold_p50_ms"]) >= 19.0, "{figures}");
    let recommended = &figures["recommended"];
    assert_eq!(recommended["retries"], 1);
    assert!(2.0 * number(&recommended["wait_ms"]) < 1_500.0, "{figures}");
    let point = &figures["points"][0];
    // Far below what a quiet machine reaches, as a busy one does when it is busier than it was while
    // the capacity was measured.
    assert!(number(&point["goodput_per_s"]) > 0.2 * capacity, "{figures}");
    assert!(number(&point["refused"]) > number(&point["sent"]) / 2.0, "{figures}");
    let unsent = number(&point["unsent"]);
    assert_eq!((unsent, number(&point["failed"])), (0.0, 0.0), "{figures}");
}

#[test]
fn an_endpoint_is_measured_as_it_is() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let buy = || async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        "sold"
    };
    let layer = LockLayer::new(LockClient::memory()).wait(Duration::from_millis(200)).retries(1);
    let app =
        Router::new().route("/buy/{sku}", post(buy)).route_layer(layer.key(path("buy:{sku}")));
    runtime.spawn(async move { axum::serve(listener, app).await });
    let endpoint = format!("http://{address}/buy/42");
    let common = ["--seconds", "1", "--loads", "5", "--budget", "1500ms"];
    let figures = measured(&[&common[..], &["--endpoint", &endpoint]].concat());
    let point = &figures["points"][0];
    assert!(point["goodput_per_s"].as_f64() > Some(2.0), "{figures}");
    assert!(point["refused"].as_u64() > Some(0), "{figures}");
    assert_eq!((point["failed"].as_u64(), point["unsent"].as_u64()), (Some(0), Some(0)));

    let nowhere = format!("http://{address}/nowhere");
    let output = size(&[&common[..], &["--endpoint", &nowhere]].concat());
    let stderr = text(&output.stderr);
    assert!(!output.status.success() && stderr.contains("404"), "{stderr}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    for (arguments, code, reason) in [
        (&["--url", "nowhere:"][..], 1, "bad scheme of a lock URL"),
        (&["--svg", "/no/such/folder/curve.svg"], 1, "/no/such/folder/curve.svg"),
        (&["--hold", "30s", "--seconds", "1"], 1, "--seconds"),
        (&["--budget", "0s"], 2, "--budget"),
    ] {
        let output = size(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
