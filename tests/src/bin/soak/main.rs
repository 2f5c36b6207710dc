//! A soak: processes that use a lock for as long as you like, while everything around them fails.
//!
//! ```text
//! cargo run --release -p tests --bin soak -- --store redis+sentinel --minutes 30 --seed 7
//! ```
//!
//! A test shows what one fault does. Here several processes take, keep, lose and give back a few
//! keys at random; a *nemesis* does faults of the matrix to them, to their links and to the
//! servers, several at a time; and a resource that they write to compares fencing tokens. All
//! that is random follows from the seed: the same seed draws the same faults in the same order.
//!
//! A run has rounds of some seconds. At the end of each all is healed, everybody lets go, and the
//! history of the round is judged; the next one begins with what the last one left: the highest
//! token of each key. So a run of an hour takes no more memory than one of a minute. The first
//! invariant that does not hold ends the run, with the seed and the shortest history that shows it.
//!
//! One table has all that a fault may break, and for how long; whatever is not in it must hold.
//!
//! - [`arguments`]: the command line.
//! - [`faults`]: the table of faults: who can suffer them, and what each may break.
//! - [`schedule`]: which faults come in a round, by the seed. Pure.
//! - [`nemesis`]: does them. [`workers`]: the processes, and their history.
//! - [`round`]: one round. [`verdict`]: whether it holds, and the shortest history if not.
//! - [`report`] and [`plot`]: what came of the run.

// A test owns its clocks.
#![allow(clippy::disallowed_methods)]

mod arguments;
mod faults;
mod nemesis;
mod plot;
mod report;
mod round;
mod schedule;
mod verdict;
mod workers;

use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use arguments::Arguments;
use verdict::Verdict;

/// The first argument of a process that is one of the workers: they run the same program.
const WORKER: &str = "worker";

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(WORKER) {
        let alone = Builder::new_current_thread().enable_all().build().expect("a runtime");
        alone.block_on(tests::worker::program::run(std::env::args_os().skip(1)));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_command_line();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(soak(&arguments))
}

async fn soak(arguments: &Arguments) -> ExitCode {
    let stop = watch::Sender::new(false);
    tokio::spawn(told_to_stop(stop.clone()));
    eprintln!("soak: {} with --seed {}", arguments.store.store, arguments.seed);
    let (figures, verdict) = round::all(arguments, stop.subscribe()).await;
    println!("{}", report::text(arguments, &figures, &verdict));
    if let Err(error) = report::keep(arguments, &figures, &verdict) {
        eprintln!("soak: {error}");
        return ExitCode::from(2);
    }
    match verdict {
        Verdict::Holds => ExitCode::SUCCESS,
        Verdict::Stopped => ExitCode::from(130),
        Verdict::Broken(_) => ExitCode::FAILURE,
    }
}

/// The end of all rounds is in order: what was started is ended.
async fn told_to_stop(stop: watch::Sender<bool>) {
    let mut interrupt = signal(SignalKind::interrupt()).expect("signals");
    let mut terminate = signal(SignalKind::terminate()).expect("signals");
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.send_replace(true);
}
