//! Many who hold one key of this process, and let go at once: what each costs.

use futures_util::future::join_all;
use lock_core::{LockClient, LockGuard};
use tests::clock::now_ns;

use crate::arguments::Arguments;
use crate::report::{Target, Work};
use crate::rivals::Contender::Ours;
use crate::series::Series;

const PERMITS: [(&str, u32); 2] = [("64 permits, each µs", 64), ("1024 permits, each µs", 1_024)];
const READERS: [(&str, u32); 2] =
    [("1000 watched readers, each µs", 1_000), ("16000 watched readers, each µs", 16_000)];

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        for (figure, many) in PERMITS {
            let locks = LockClient::memory();
            let one = |_| locks.lock("bench:at-once").permits(many).acquire();
            let held = join_all((0..many).map(one)).await;
            series.push(Ours.name(), figure, released(held.into_iter().map(free)).await);
        }
        for (figure, many) in READERS {
            let locks = LockClient::memory();
            let one = |_| locks.lock("bench:at-once").shared().acquire();
            let held = join_all((0..many).map(one)).await;
            series.push(Ours.name(), figure, released(held.into_iter().map(free)).await);
        }
    }
    let median = |figure| series.spread(Ours.name(), figure).median;
    let growth = |[(few, _), (many, _)]: [(&'static str, u32); 2]| median(many) / median(few);
    let targets = vec![
        Target::at_most("a permit of 1024 ÷ one of 64", growth(PERMITS), 2.0),
        Target::at_most("a watched reader of 16000 ÷ one of 1000", growth(READERS), 2.0),
    ];
    Work {
        name: "at-once",
        title: "one key in this process: all who hold it watch it, and let go at once".to_owned(),
        compared: Vec::new(),
        series,
        targets,
        notes: Vec::new(),
    }
}

fn free<E: std::fmt::Debug>(held: Result<LockGuard, E>) -> LockGuard {
    held.expect("a free place")
}

/// The cost of the release of one, in microseconds, while all are watched.
async fn released(held: impl Iterator<Item = LockGuard>) -> f64 {
    let held: Vec<_> = held.collect();
    let mut lost: Vec<_> = held.iter().map(|guard| Box::pin(guard.lost())).collect();
    for lost in &mut lost {
        assert!(futures_util::poll!(lost).is_pending(), "it is held");
    }
    let (many, start_ns) = (held.len(), now_ns());
    let released = join_all(held.into_iter().map(LockGuard::release)).await;
    let took_ns = now_ns() - start_ns;
    assert!(released.into_iter().all(|released| released.is_ok()), "each was held");
    took_ns as f64 / 1e3 / many as f64
}
