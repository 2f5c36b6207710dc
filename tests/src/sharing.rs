//! Processes that share one key, on any store.

use crate::checker::Checker;
use crate::history;
use crate::wait::within;
use crate::worker::{self, Worker};

const PROCESSES: usize = 4;
const TASKS: u64 = 4;
const ROUNDS: u64 = 25;

/// V1, V2, V4, V5: processes that want one key have it one after the other, all of them, whether or
/// not each keeps it for a while, and each gives back what it was granted. They have a place of their
/// own for each way to share it, with a URL.
///
/// # Panics
///
/// If one is left out, two have it at once, or a hold was lost.
///
/// # Cancel safety
///
/// The processes are killed.
pub async fn processes_share_a_key<P>(place: impl Fn() -> P, url: impl Fn(&P) -> String) {
    for fairness in ["batched", "strict"] {
        let (place, folder) = (place(), tempfile::tempdir().expect("a folder"));
        let start = |number: usize| {
            let url = url(&place);
            let (log, name) = (folder.path().join(number.to_string()), format!("p{number}"));
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
