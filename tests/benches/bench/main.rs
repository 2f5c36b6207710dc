//! The cost of a lock, beside that of others, in one run.
//!
//! `cargo bench -p tests` prints a table per work, ready for `docs/benchmarks.md`, and whether
//! each target is met. Every work measures its rivals in turn within each repeat, so that the
//! machine's mood meets all of them, and compares within the repeat. See `--help`.

#![allow(clippy::disallowed_methods)]

mod arguments;
mod child;
mod measure;
mod report;
mod rivals;
mod series;
mod versions;
mod works;

use clap::Parser;

use arguments::Arguments;
use report::Report;

fn main() {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    if let Some(plan) = &arguments.child {
        runtime.block_on(child::run(plan));
        // Tasks that the run left waiting need not end in good order.
        std::process::exit(0);
    }
    let mut report = Report::new(&arguments);
    for work in works::selected(&arguments) {
        eprintln!("{} …", work.name());
        report.add(runtime.block_on(work.run(&arguments)));
    }
    if arguments.json {
        report.print_json();
    } else {
        report.print_markdown();
        report.print_front();
    }
}
