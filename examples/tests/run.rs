//! Runs the flash sale and every example as a user does, with no server.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// The face of `--json`: these, and nothing else.
const FIELDS: [&str; 10] = [
    "sold",
    "refused",
    "oversold",
    "duplicates",
    "wait_p50_ms",
    "wait_p99_ms",
    "orders_per_s",
    "handoffs_local",
    "handoffs_remote",
    "commands_per_acquisition",
];

fn flash_sale(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flash-sale")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one JSON object that standard output consists of.
fn figures(output: &Output) -> Value {
    let stdout = text(&output.stdout);
    let figures: Value = serde_json::from_str(&stdout)
        .unwrap_or_else(|error| panic!("{error}: {stdout} {}", text(&output.stderr)));
    let fields: Vec<_> = figures.as_object().unwrap().keys().map(String::as_str).collect();
    let (mut fields, mut expected) = (fields, FIELDS.to_vec());
    fields.sort_unstable();
    expected.sort_unstable();
    assert_eq!(fields, expected);
    figures
}

fn counts(figures: &Value) -> [u64; 4] {
    ["sold", "refused", "oversold", "duplicates"].map(|name| figures[name].as_u64().unwrap())
}

#[test]
fn the_default_sale_sells_each_of_100_items_once_to_1000_buyers() {
    let output = flash_sale(&["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let figures = figures(&output);
    assert_eq!(counts(&figures), [100, 900, 0, 0]);
    assert!(figures["wait_p99_ms"].as_f64() >= figures["wait_p50_ms"].as_f64());
    assert!(figures["orders_per_s"].as_f64().unwrap() > 0.0);
    // A memory store is asked nothing, and all others of 1,100 clicks waited for the first.
    assert!(figures["handoffs_local"].as_u64().unwrap() > 500);
    assert_eq!(figures["handoffs_remote"], 0);
    assert_eq!(figures["commands_per_acquisition"], 0.0);
}

#[test]
fn a_sale_with_fewer_buyers_than_items_refuses_nobody() {
    let output = flash_sale(&["--json", "--buyers", "12", "--stock", "20", "--hold-ms", "0"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(counts(&figures(&output)), [12, 0, 0, 0]);
}

#[test]
fn a_sale_without_buyers_or_without_items_is_a_sale_too() {
    let output = flash_sale(&["--json", "--buyers", "0"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(counts(&figures(&output)), [0, 0, 0, 0]);
    let output = flash_sale(&["--json", "--buyers", "15", "--stock", "0"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(counts(&figures(&output)), [0, 15, 0, 0]);
}

#[test]
fn without_the_lock_the_same_sale_oversells_and_the_program_fails() {
    let output = flash_sale(&[
        "--json",
        "--without-lock",
        "--buyers",
        "100",
        "--stock",
        "10",
        "--hold-ms",
        "50",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let [sold, _, oversold, duplicates] = counts(&figures(&output));
    assert!(oversold > 0 && oversold == sold - 10, "{oversold} of {sold}");
    assert!(duplicates > 0, "nobody who clicked twice got two items");
}

#[test]
fn the_table_names_every_figure_and_the_database_stays_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("shop.sqlite");
    let arguments = ["--buyers", "20", "--stock", "5", "--db", db.to_str().unwrap()];
    for _ in 0..2 {
        let output = flash_sale(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        for row in [
            "sold",
            "refused",
            "oversold",
            "duplicates",
            "wait p50",
            "wait p99",
            "throughput",
            "hand-offs local",
            "hand-offs remote",
            "store commands",
        ] {
            assert!(table.contains(row), "no {row} in {table}");
        }
        assert!(db.exists());
    }
}

#[cfg(unix)]
#[test]
fn a_shop_that_keeps_serving_ends_well_when_it_is_told_to() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let mut shop = Command::new(env!("CARGO_BIN_EXE_flash-sale"))
        .args(["--serve", "--json", "--buyers", "20", "--stock", "5"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(shop.stdout.take().unwrap());
    let mut stderr = BufReader::new(shop.stderr.take().unwrap());
    let (mut figures, mut serving, mut rest) = (String::new(), String::new(), String::new());
    stdout.read_line(&mut figures).unwrap();
    assert!(figures.starts_with('{'), "{figures}");
    stderr.read_line(&mut serving).unwrap();
    assert!(serving.contains("http://127.0.0.1:"), "{serving}");
    kill(Pid::from_raw(shop.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(shop.wait().unwrap().success());
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

/// The locks are in the file that has the stock, so nothing is needed but that.
#[test]
fn four_processes_sell_each_item_once_over_locks_in_the_file_of_the_shop() {
    for locks in ["sqlite:", "sqlite://own"] {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("sqlite://{}/locks.db", folder.path().display());
        let locks = if locks == "sqlite:" { locks } else { &own };
        let arguments = ["--json", "--buyers", "200", "--stock", "50", "--hold-ms", "1"];
        let more = ["--processes", "4", "--locks", locks];
        let output = flash_sale(&[&arguments[..], &more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(counts(&figures(&output)), [50, 150, 0, 0], "{locks}");
    }
}

/// The rows that a sale has left in its file: the stock, the orders, and the orders that have a
/// record.
fn books(db: &std::path::Path) -> (i64, Vec<String>, Vec<String>) {
    use sqlx::Row as _;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(db);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        // One statement, so that all of it is of one moment.
        let sql = "SELECT 'stock' AS what, CAST(left AS TEXT) AS it FROM stock
                   UNION ALL SELECT 'order', order_id FROM orders
                   UNION ALL SELECT state, CAST(payload AS TEXT) FROM lock_records";
        let (mut left, mut orders, mut records) = (0, Vec::new(), Vec::new());
        for row in sqlx::query(sql).fetch_all(&pool).await.unwrap() {
            let it: Option<String> = row.get("it");
            match row.get("what") {
                "stock" => left = it.unwrap().parse().unwrap(),
                "order" => orders.push(it.unwrap()),
                "done" => records.push(serde_json::from_str(&it.unwrap()).unwrap()),
                // One that was killed on its way, or was rolled back.
                _ => {}
            }
        }
        pool.close().await;
        orders.sort_unstable();
        records.sort_unstable();
        (left, orders, records)
    })
}

/// The processes that this one has started.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<i32> {
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may have anything in it: the state, and then the parent.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

/// A server is killed in the middle of a rush. The others go on, behind its lease if it had the lock.
/// Whatever it was doing, the stock, the orders and the records of idempotency tell one story.
#[cfg(target_os = "linux")]
#[test]
fn each_order_has_its_record_and_each_record_its_order_where_a_process_is_killed() {
    use std::process::Stdio;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    const STOCK: usize = 60;
    for dies_after in [1, 20] {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("shop.sqlite");
        let mut sale = Command::new(env!("CARGO_BIN_EXE_flash-sale"))
            .args(["--json", "--buyers", "160", "--stock", "60", "--hold-ms", "2"])
            .args(["--processes", "4", "--locks", "sqlite:", "--db", db.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The records are the last that is made before the servers.
        while !db.exists() || children(sale.id()).len() < 3 {
            assert!(sale.try_wait().unwrap().is_none(), "it ended before it began");
            std::thread::yield_now();
        }
        loop {
            let (left, orders, records) = books(&db);
            assert_eq!(orders, records, "in the middle of the sale");
            if orders.len() >= dies_after {
                assert!(left > 0, "it is over");
                break;
            }
        }
        let worker = children(sale.id())[0];
        kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
        // It fails, as it has lost a server.
        assert_eq!(sale.wait().unwrap().code(), Some(1));
        let (left, orders, records) = books(&db);
        assert_eq!((left, orders.len()), (0, STOCK), "what is not sold is on the shelf");
        assert_eq!(orders, records);
        let mut once = orders.clone();
        once.dedup();
        assert_eq!(once, orders, "an order was taken twice");
    }
}

#[test]
fn several_processes_on_a_memory_store_are_a_clear_error() {
    let output = flash_sale(&["--processes", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let error = text(&output.stderr);
    assert!(error.contains("--processes 2") && error.contains("--locks redis://"), "{error}");
}

#[test]
fn a_store_that_is_not_there_is_an_error_without_the_password() {
    let output = flash_sale(&["--json", "--locks", "redis://:hunter2@127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let error = text(&output.stderr);
    assert!(error.contains("flash-sale:") && !error.contains("hunter2"), "{error}");
}

/// Cargo builds the examples beside the tests, but tells only where binaries are.
fn example(name: &str) -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_flash-sale"));
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let path = binary.with_file_name("examples").join(file);
    assert!(path.exists(), "the examples are not built: `cargo test -p examples` builds them");
    path
}

#[test]
fn every_example_runs_to_its_end_and_is_short() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 80, "{name} has {lines} lines");
        let output = Command::new(example(&name)).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert!(!output.stdout.is_empty(), "{name} says nothing");
        seen.push(name);
    }
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            "cron",
            "election",
            "fenced_transaction",
            "fenced_write",
            "graceful_shutdown",
            "guard",
            "idempotency",
            "layer",
            "macro_handler",
            "payment",
            "shutdown",
            "slow_api"
        ]
    );
}
