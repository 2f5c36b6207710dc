//! Several processes on one table.

use sqlx::Row;
use tests::checker::Checker;
use tests::history;
use tests::wait::{eventually, within};
use tests::worker::{self, Worker};

use crate::support::*;

const PROCESSES: usize = 4;
const TASKS: u64 = 4;
const ROUNDS: u64 = 25;

/// V1, V2, V4, V5: processes that want one key have it one after the other, all of them, whether or
/// not each keeps it for a while.
#[tokio::test]
async fn processes_share_a_key_fairly_and_nobody_is_left_out() {
    for fairness in ["batched", "strict"] {
        let (place, folder) = (Place::new(), tempfile::tempdir().expect("a folder"));
        let start = |number: usize| {
            let (url, name) = (place.new_url(), format!("p{number}"));
            let log = folder.path().join(format!("{number}.log"));
            let log_arg = log.display().to_string();
            let arguments =
                ["--url", &url, "--process", &name, "--history", &log_arg, "--fairness", fairness];
            (Worker::spawn(worker::binary(), &arguments), log)
        };
        let (mut workers, logs): (Vec<_>, Vec<_>) = (0..PROCESSES).map(start).unzip();
        for worker in &mut workers {
            worker.send(&format!("contend hot {TASKS} {ROUNDS} 200 60000"));
        }
        for worker in &mut workers {
            let counts = worker.reply().await.value.expect("counts");
            assert_eq!(counts["acquired"], TASKS * ROUNDS, "{counts}");
            assert_eq!(counts["not_held"], 0, "{counts}");
        }
        for mut worker in workers {
            worker.send("exit");
            within("its end", worker.ended()).await;
        }
        let read = |log: &std::path::PathBuf| history::read(log).expect("a history");
        let mut events: Vec<_> = logs.iter().flat_map(read).collect();
        events.sort_by_key(|event| event.t_ns);
        let report = Checker::new().exclusive().check(&events).expect("one holder at a time");
        let all = u64::try_from(PROCESSES).expect("a few") * TASKS * ROUNDS;
        assert_eq!(report.grants, all);
    }
}

/// F16, F40 (V2): the clock was set back by an hour, once. What is granted and renewed goes on from the
/// row, and by so little each that the clock catches up.
#[tokio::test]
async fn a_row_that_is_ahead_of_the_clock_goes_on_by_little() {
    let place = Place::new();
    let (locks, table) = (connect(&place.new_url(), ms(900)).await, &place.table);
    let guard = locks.lock("k").await.expect("a free key");
    let ahead = i64::from(guard.token()) + 8_000_000 * 3_600;
    guard.release().await.expect("a release");
    place.server.sql(format!("UPDATE {table} SET fence = {ahead} WHERE name = 'k'"));
    let guard = locks.lock("k").await.expect("a free key");
    assert!(i64::from(guard.token()) > ahead, "a finding of safety: {}", guard.token());
    let renewals = locks.stats().renewals;
    eventually("it is renewed", || locks.stats().renewals > renewals + 1).await;
    let rows = place.server.sql(format!("SELECT fence FROM {table} WHERE name = 'k'"));
    let on = rows[0].get::<i64, _>(0) - ahead;
    let asked = i64::try_from(locks.stats().renewals).expect("few") + 3;
    assert!(on <= 512 * asked, "{on} tokens for {asked} statements");
    guard.release().await.expect("a release");
}
