//! The figures of a run, and its report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use tests::checker::Report;
use tests::clock::now_ns;
use tests::history::{Event, Fun, Kind};
use tests::scene::LATE;

use crate::arguments::Arguments;
use crate::faults::{Done, FAULTS, What};
use crate::plot;
use crate::verdict::Verdict;

/// The figures of a run.
#[derive(Debug)]
pub(crate) struct Figures {
    begun_ns: u64,
    pub(crate) rounds: u64,
    sum: Report,
    releases: u64,
    /// How long all rounds took together.
    busy: Duration,
    /// Grants of each second.
    pub(crate) per_second: Vec<u32>,
    /// The faults that were done, and from when to when in seconds of the run.
    pub(crate) faults: Vec<(What, f64, f64)>,
    /// The most tasks that were alive in a process that rests, after each round.
    tasks: Vec<u64>,
    /// Memory of this process at the end of the first round and of the last, in MiB.
    memory_mib: Option<(u64, u64)>,
    pub(crate) left: usize,
}

impl Figures {
    pub(crate) fn new() -> Self {
        Self {
            begun_ns: now_ns(),
            rounds: 0,
            sum: Report::default(),
            releases: 0,
            busy: Duration::ZERO,
            per_second: Vec::new(),
            faults: Vec::new(),
            tasks: Vec::new(),
            memory_mib: None,
            left: 0,
        }
    }

    /// The servers are there: time counts from now.
    pub(crate) fn begin(&mut self) {
        self.begun_ns = now_ns();
    }

    fn seconds(&self, t_ns: u64) -> f64 {
        Duration::from_nanos(t_ns.saturating_sub(self.begun_ns)).as_secs_f64()
    }

    /// Counts what a round was, whatever it is worth.
    pub(crate) fn count(&mut self, events: &[Event], faults: &[Done], tasks: u64) {
        self.rounds += 1;
        for event in events.iter().filter(|event| event.kind == Kind::Ok) {
            match event.f {
                Fun::Acquire => {
                    let second = event.t_ns.saturating_sub(self.begun_ns) / 1_000_000_000;
                    let second = usize::try_from(second).expect("not for ever");
                    if self.per_second.len() <= second {
                        self.per_second.resize(second + 1, 0);
                    }
                    self.per_second[second] += 1;
                }
                Fun::Release => self.releases += 1,
                Fun::Renew | Fun::Downgrade | Fun::Write => {}
            }
        }
        let spans = faults
            .iter()
            .map(|done| (done.what, self.seconds(done.from_ns), self.seconds(done.until_ns)));
        let spans: Vec<_> = spans.collect();
        self.faults.extend(spans);
        self.tasks.push(tasks);
        let now = memory_mib();
        self.memory_mib = Some((self.memory_mib.map_or(now, |first| first.0), now));
    }

    /// Adds a round that holds.
    pub(crate) fn add(&mut self, report: &Report, took_ns: u64) {
        self.busy += Duration::from_nanos(took_ns);
        let sum = &mut self.sum;
        sum.grants += report.grants;
        sum.refusals += report.refusals;
        sum.writes_accepted += report.writes_accepted;
        sum.writes_refused += report.writes_refused;
        sum.losses += report.losses;
        sum.late_answers += report.late_answers;
        sum.latest_ns = sum.latest_ns.max(report.latest_ns);
        sum.longest_wait_ns = sum.longest_wait_ns.max(report.longest_wait_ns);
    }

    /// In one line, for who waits.
    pub(crate) fn line(&self) -> String {
        let Report { grants, losses, .. } = self.sum;
        let (faults, tasks) = (self.faults.len(), self.tasks.last().copied().unwrap_or_default());
        format!("{grants} acquires, {faults} faults, {losses} losses told, {tasks} tasks at rest")
    }

    fn per_s(&self) -> u64 {
        self.sum.grants / self.busy.as_secs().max(1)
    }
}

/// The resident memory of this process.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0_u64) / 1_024
}

/// The head of a table of runs, and the line of this one.
fn row(arguments: &Arguments, figures: &Figures, verdict: &Verdict) -> String {
    let sum = &figures.sum;
    let wait = Duration::from_nanos(sum.longest_wait_ns).as_secs_f64();
    let verdict = match verdict {
        Verdict::Holds => "holds",
        Verdict::Stopped => "stopped",
        Verdict::Broken(_) => "**broken**",
    };
    format!(
        "| store | seed | time | acquires | per s | releases | refused | losses told | faults \
         | longest wait | late by 20 ms | left | verdict |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n\
         | {} | {} | {} s | {} | {} | {} | {} | {} | {} | {wait:.2} s | {} | {} | {verdict} |\n",
        arguments.store.store,
        arguments.seed,
        figures.busy.as_secs(),
        sum.grants,
        figures.per_s(),
        figures.releases,
        sum.refusals,
        sum.losses,
        figures.faults.len(),
        sum.late_answers,
        figures.left,
    )
}

/// The report, as Markdown.
pub(crate) fn text(arguments: &Arguments, figures: &Figures, verdict: &Verdict) -> String {
    let mut text = format!("# Soak of {}\n\n", arguments.store.store);
    text += &row(arguments, figures, verdict);
    let sum = &figures.sum;
    let memory = figures.memory_mib.unwrap_or_default();
    let mut tasks = figures.tasks.clone();
    tasks.sort_unstable();
    let nth = |n: usize| tasks.get(n).copied().unwrap_or_default();
    let _ = write!(
        text,
        "\n- {} rounds; each was judged, and nothing was left in its processes or at its keys.\n\
         - Writes: {} accepted, {} refused for their token.\n\
         - Waits that ended more than 20 ms past their budget: {}, the latest by {} ms. One that is \
         more than {} ms late ends the run. The time for which its process stood still is taken \
         off: a thread there sleeps 5 ms at a time and sees it, or the kernel counted that it \
         waited for a processor.\n\
         - Tasks alive in a resting process: {} after the median round, {} after the last, {} at \
         most.\n\
         - Memory of the soak: {} MiB after the first round, {} MiB after the last.\n\n",
        figures.rounds,
        sum.writes_accepted,
        sum.writes_refused,
        sum.late_answers,
        sum.latest_ns / 1_000_000,
        LATE.as_millis(),
        nth(tasks.len() / 2),
        figures.tasks.last().copied().unwrap_or_default(),
        nth(tasks.len().saturating_sub(1)),
        memory.0,
        memory.1,
    );
    text += "| fault | matrix | times |\n|---|---|---|\n";
    let mut times: BTreeMap<What, u64> = BTreeMap::new();
    figures.faults.iter().for_each(|(what, ..)| *times.entry(*what).or_default() += 1);
    for fault in FAULTS.iter().filter(|row| row.can_happen_to(arguments.store)) {
        let times = times.get(&fault.what).copied().unwrap_or(0);
        let _ = writeln!(text, "| {} | {} | {times} |", fault.name, fault.ids);
    }
    if let Verdict::Broken(broken) = verdict {
        let seed = arguments.seed;
        let _ = write!(text, "\n## Broken, with seed {seed}\n\n```text\n{broken}\n```\n");
    }
    text
}

/// Writes the report and the plot where the arguments say.
pub(crate) fn keep(
    arguments: &Arguments,
    figures: &Figures,
    verdict: &Verdict,
) -> Result<(), Box<dyn std::error::Error>> {
    let Some(folder) = &arguments.out else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = format!("{}-{}", arguments.store.store, arguments.seed);
    let write = |end: &str, text: String| {
        let path = folder.join(format!("{name}.{end}"));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Verdict::Broken(broken) = verdict {
        let lines: Result<Vec<_>, _> = broken.round.iter().map(serde_json::to_string).collect();
        write("jsonl", lines?.join("\n") + "\n")?;
    }
    write("md", text(arguments, figures, verdict))?;
    write("svg", plot::drawn(arguments.store.store, arguments.seed, figures)?)?;
    Ok(())
}
