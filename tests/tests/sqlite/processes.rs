//! Several processes on one file.

use std::collections::BTreeMap;

use tests::sharing::processes_share_a_key;
use tests::wait::within;
use tests::worker::{self, Worker};

use crate::support::*;

fn start(place: &Place, number: usize, more: &[&str]) -> (Worker, std::path::PathBuf) {
    let url = place.new_url();
    let log = place.path().with_file_name(format!("{number}.log"));
    let (name, log_arg) = (format!("p{number}"), log.display().to_string());
    let arguments = ["--url", &url, "--process", &name, "--history", &log_arg];
    (Worker::spawn(worker::binary(), &[&arguments[..], more].concat()), log)
}

/// V1, V2, V4, V5.
#[tokio::test]
async fn processes_share_a_key_fairly_and_nobody_is_left_out() {
    processes_share_a_key(Place::new, Place::new_url).await;
}

/// F03, F04 (V1, V2, V5): processes that are killed wherever they are, also in the middle of a
/// statement, cost the others a lease and a deadline, and the file is whole.
#[tokio::test]
async fn processes_that_are_killed_at_any_moment_cost_no_more_than_their_leases() {
    let place = Place::new();
    let (mut stays, log) = start(&place, 0, &["--lease-ms", "400"]);
    stays.send("contend hot 2 60 500 60000");
    let mut logs = vec![log];
    let mut killed = BTreeMap::new();
    for number in 1..=6 {
        let (mut dies, log) = start(&place, number, &["--lease-ms", "400"]);
        dies.send("contend hot 8 100000 100 60000");
        // It works, and dies wherever it is then.
        let before = tokens(&place).await;
        tests::wait::eventually("it was granted the key", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 20 + number)
        })
        .await;
        dies.kill();
        assert!(tokens(&place).await >= before);
        killed.insert(format!("p{number}"), ());
        logs.push(log);
    }
    let counts = stays.reply().await.value.expect("counts");
    assert_eq!(counts["acquired"], 120, "{counts}");
    stays.send("exit");
    within("its end", stays.ended()).await;
    let mut connection = place.connection().await;
    let whole: String = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_one(&mut connection)
        .await
        .expect("an answer");
    assert_eq!(whole, "ok");
    let locks = place.client().await;
    let guard = locks.lock("hot").await.expect("it is free, soon");
    guard.release().await.expect("a release");
}

async fn tokens(place: &Place) -> i64 {
    let mut connection = place.connection().await;
    let last = sqlx::query_scalar("SELECT coalesce(max(fence), 0) FROM lock_leases");
    last.fetch_one(&mut connection).await.unwrap_or(0)
}

/// V2, V8: what a statement did may be taken back when it commits, as the disk is full then. Each
/// grant that was told is in the file, and the one that is not there was told as an error.
#[tokio::test]
async fn a_grant_that_the_commit_took_back_is_told_as_an_error() {
    let place = Place::new();
    let locks = place.client().await;
    // A process whose files may grow to 200 KB: to SQLite the same as a disk that is full, and for
    // the log of the file it is found out at the commit.
    let limited = "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"";
    let (program, url) = (worker::binary().display().to_string(), place.new_url());
    let arguments = ["-c", limited, &program, "--url", &url, "--lease-ms", "60000"];
    let mut worker = Worker::spawn("sh", &arguments);
    let mut granted = Vec::new();
    let error = loop {
        let key = format!("k:{}", granted.len());
        let reply = worker.ask(&format!("try {key} 60000")).await;
        match reply.ok {
            true => granted.push(key),
            false => break reply,
        }
        assert!(granted.len() < 1_000, "there is no end to its files");
    };
    assert_eq!(error.error(), "unavailable", "{error:?}");
    assert!(granted.len() > 10, "{granted:?}");
    for key in granted {
        let seen = locks.inspect(&key).await.expect("an answer");
        assert_eq!(seen.holders.len(), 1, "{key} was granted, and is not in the file");
    }
    worker.kill();
}
