//! Several processes on one table.

use tests::checker::Checker;
use tests::history;
use tests::wait::within;
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
            assert_eq!(counts["released"], TASKS * ROUNDS, "{counts}");
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
