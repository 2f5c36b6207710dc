//! How long to wait for a lock, and how often: answered by a load test of your own.
//!
//! ```text
//! cargo run --release -p examples --bin size -- --url memory: --hold 5ms
//! cargo run --release -p examples --bin size -- --url redis://127.0.0.1 --hold 20ms --budget 2s
//! cargo run --release -p examples --bin size -- --endpoint http://127.0.0.1:3000/buy/sneaker
//! ```
//!
//! It measures what one key can serve, recommends `wait` and `retries` for the budget that you give
//! an answer, and shows with these two how the key behaves under loads below and above its
//! capacity. Requests come by a schedule and not when the last one was answered, and each is timed
//! from when it was due: a server that falls behind is charged for it.
//!
//! - [`arguments`]: the command line. [`target`]: what a request is.
//! - [`capacity`]: what the key can serve. [`advice`]: what to choose. Pure.
//! - [`schedule`]: when requests come. Pure. [`load`]: one load. [`point`]: what came of it. Pure.
//! - [`table`] and [`chart`]: what is printed and drawn.

mod advice;
mod arguments;
mod capacity;
mod chart;
mod clock;
mod limits;
mod load;
mod point;
mod schedule;
mod table;
mod target;

use std::process::ExitCode;

use advice::Advice;
use arguments::Arguments;
use target::Target;

/// The error of a run, for the person at the terminal.
type Trouble = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = Arguments::from_command_line();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    eprintln!("size: {error}");
    ExitCode::FAILURE
}

async fn run(arguments: &Arguments) -> Result<(), Trouble> {
    // A chart that cannot be written should be known of before a minute of load.
    let svg = arguments.svg.as_deref().map(chart::create).transpose()?;
    let in_flight_max = limits::in_flight_max(arguments);
    let bar = arguments.progress_bar();
    bar.set_message("what one key can serve");
    let target = Target::connect(arguments).await?;
    let measured = capacity::measure(&target, arguments.seconds()).await?;
    bar.inc(1);

    let advice = Advice::new(arguments.budget, &measured, arguments.admission());
    let (wait, retries) = arguments.chosen(&advice);
    let target = target.with_waits(wait, retries);
    let mut points = Vec::new();
    for &load in &arguments.loads {
        bar.set_message(format!("{load} of the capacity"));
        let offered = load * measured.per_s;
        if offered <= load::PER_S_MAX {
            let plan = load::Plan {
                per_s: offered,
                span: arguments.seconds(),
                budget: arguments.budget,
                in_flight_max,
            };
            points.push((load, load::run(&target, &plan).await));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    target.close().await;

    if arguments.json {
        println!("{}", table::json(&measured, &advice, (wait, retries), &points));
    } else {
        println!("{}", table::curve(&measured, &points));
        println!("{}", table::verdict(arguments, &measured, &advice, (wait, retries), &points));
    }
    if let Some(file) = svg {
        file.draw(&measured, &points)?;
    }
    Ok(())
}
