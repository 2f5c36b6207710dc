//! The tables and the verdicts.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::series::{Series, Spread};
use crate::{versions, works};

/// The rows of README's table: a work, what it is, and a figure of it.
const FRONT_ROWS: [(&str, &str, &str); 7] = [
    ("hot-64", "one process, 64 tasks", "acquisitions/s"),
    ("hot-64", "", "Jain, tasks"),
    ("hot-64", "", "commands each"),
    ("processes", "4 of 16 tasks", "acquisitions/s"),
    ("processes", "", "longest wait ms"),
    ("single", "a free key", "cycle p50 µs"),
    ("many-keys", "64 free keys", "acquisitions/s"),
];
/// And its columns.
const FRONT_RIVALS: [&str; 4] = ["ours", "rslock 0.10", "poller, 1 ms", "tokio::sync::Mutex"];

/// The measurements of one work.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    /// A title that says in one line what is done.
    pub(crate) title: String,
    pub(crate) series: Series,
    /// Ours and the figure that rivals are compared by, for each comparison.
    pub(crate) compared: Vec<(&'static str, &'static str)>,
    pub(crate) targets: Vec<Target>,
    pub(crate) notes: Vec<String>,
}

/// One claim of the specification.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    claim: String,
    measured: f64,
    bound: f64,
    at_least: bool,
    met: bool,
}

impl Target {
    pub(crate) fn at_least(claim: impl Into<String>, measured: f64, bound: f64) -> Self {
        // Beside a rival that did nothing there is no ratio, and none that is met.
        let met = measured.is_finite() && measured >= bound;
        Target { claim: claim.into(), measured, bound, at_least: true, met }
    }

    pub(crate) fn at_most(claim: impl Into<String>, measured: f64, bound: f64) -> Self {
        let met = measured <= bound;
        Target { claim: claim.into(), measured, bound, at_least: false, met }
    }
}

/// All works and the machine they ran on.
#[derive(Debug)]
pub(crate) struct Report {
    machine: String,
    works: Vec<Work>,
}

impl Report {
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(": ")).map_or("unknown CPU", |(_, value)| value)
        };
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let machine = format!(
            "{} × {cores} cores, Linux {}, {}, {} repeats{}",
            field("model name"),
            read("/proc/sys/kernel/osrelease").trim(),
            versions::of(&works::selected(arguments)),
            arguments.repeats(),
            if arguments.quick { ", quick" } else { "" },
        );
        Report { machine, works: Vec::new() }
    }

    pub(crate) fn add(&mut self, work: Work) {
        self.works.push(work);
    }

    pub(crate) fn print_markdown(&self) {
        println!("Machine: {}.", self.machine);
        println!("Each figure is the median over the repeats, with [min–max].\n");
        for work in &self.works {
            println!("### {}: {}\n", work.name, work.title);
            print_table(work);
            for note in &work.notes {
                println!("{note}\n");
            }
        }
        println!("### Targets\n");
        println!("| work | claim | measured | bound | |");
        println!("|---|---|---|---|---|");
        for work in &self.works {
            for target in &work.targets {
                let sign = if target.at_least { "≥" } else { "≤" };
                let (measured, bound) = (number(target.measured), number(target.bound));
                let met = if target.met { "met" } else { "**missed**" };
                println!(
                    "| {} | {} | {measured} | {sign} {bound} | {met} |",
                    work.name, target.claim
                );
            }
        }
    }

    /// README's table, of what was measured of it.
    pub(crate) fn print_front(&self) {
        if !FRONT_ROWS.iter().any(|row| self.works.iter().any(|work| work.name == row.0)) {
            return;
        }
        println!("### README's table\n");
        println!("| work | figure | {} |", FRONT_RIVALS.join(" | "));
        println!("|---|---|{}", "---|".repeat(FRONT_RIVALS.len()));
        for (name, what, figure) in FRONT_ROWS {
            let Some(work) = self.works.iter().find(|work| work.name == name) else { continue };
            let median = |rival| match work.series.get(rival, figure) {
                [] => String::new(),
                values => number(Spread::of(values).median),
            };
            let (cells, colon) =
                (FRONT_RIVALS.map(median), if what.is_empty() { "" } else { ": " });
            println!("| {name}{colon}{what} | {figure} | {} |", cells.join(" | "));
        }
    }

    pub(crate) fn print_json(&self) {
        let works: Vec<Value> = self.works.iter().map(as_json).collect();
        println!("{}", json!({ "machine": self.machine, "works": works }));
    }
}

fn print_table(work: &Work) {
    let figures = work.series.figures();
    let ratios = work.compared.iter().map(|(ours, figure)| format!("{ours} ÷ this, by {figure}"));
    let heads: Vec<String> = figures.iter().map(ToString::to_string).chain(ratios).collect();
    println!("| | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len()));
    for rival in work.series.rivals() {
        let own = figures.iter().map(|figure| match work.series.get(rival, figure) {
            [] => String::new(),
            values => spread(Spread::of(values)),
        });
        let ratios = work.compared.iter().map(|(ours, figure)| {
            let comparable = rival != *ours && !work.series.get(rival, figure).is_empty();
            let cell = comparable.then(|| spread(work.series.ratio(ours, rival, figure)));
            cell.unwrap_or_default()
        });
        let cells: Vec<String> = own.chain(ratios).collect();
        println!("| {rival} | {} |", cells.join(" | "));
    }
    println!();
}

fn as_json(work: &Work) -> Value {
    let mut rivals = Map::new();
    for rival in work.series.rivals() {
        let mut figures = Map::new();
        for figure in work.series.figures() {
            let values = work.series.get(rival, figure);
            if !values.is_empty() {
                figures.insert(figure.to_owned(), json!(Spread::of(values)));
            }
        }
        for (ours, figure) in work.compared.iter().filter(|(ours, _)| *ours != rival) {
            let ratio = json!(work.series.ratio(ours, rival, figure));
            figures.insert(format!("ratio, by {figure}"), ratio);
        }
        rivals.insert(rival.to_owned(), Value::Object(figures));
    }
    json!({
        "name": work.name,
        "title": work.title,
        "rivals": rivals,
        "targets": work.targets,
        "notes": work.notes,
    })
}

fn spread(spread: Spread) -> String {
    let (median, min, max) = (number(spread.median), number(spread.min), number(spread.max));
    if min == max { median } else { format!("{median} [{min}–{max}]") }
}

/// Three digits that say something, thousands apart.
fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size >= 1000.0 {
        let whole = format!("{:.0}", value);
        let mut text = String::new();
        for (place, digit) in whole.chars().enumerate() {
            if place > 0 && (whole.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return text;
    }
    let digits = match size {
        _ if size == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 0.1 => 2,
        _ if size >= 0.001 => 4,
        _ => 6,
    };
    format!("{value:.digits$}")
}
