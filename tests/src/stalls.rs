//! The time for which the machine kept a test's processes from running.
//!
//! An upper bound on real time is the product's, and what a busy machine adds to it is not. Two
//! things are added up here: how late a thread wakes that only sleeps, as it does when the whole
//! process or machine stood still; and how long a thread that could run waited for a processor, as
//! the kernel counts it. Of this process and of each that fixtures have started, the thread that
//! waited longest counts: what is measured goes from one process to the next and back. It is never
//! more than the time that has passed. On an idle machine it stays near zero.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{fs, mem, panic, thread};

use crate::clock::now_ns;

/// How long the watching thread sleeps at a time.
const TICK: Duration = Duration::from_millis(5);

/// After so many ticks the kernel is asked, as that takes a file for each thread.
const TICKS_BETWEEN_LOOKS: u32 = 40;

/// Less is what timers take on an idle machine.
const LATE_NS_MIN: u64 = 1_000_000;

/// How often a panic asks for the mutex, a tick apart. Another thread has it for a moment; the one that
/// panics may have it itself.
const ASKED_MAX: u32 = 20;

/// What a panic tells is of the last 75 s: a test may wait for half a minute, in vain, for what a stall
/// before that has taken.
const TOLD_NS: u64 = 75_000_000_000;

/// How many changes, and pieces, are remembered: those of the last minute at least.
const CHANGES_MAX: usize = 16_384;

static METER: LazyLock<Mutex<Meter>> = LazyLock::new(|| {
    let (begun, has_begun) = mpsc::channel();
    let watch = move || {
        let _ = begun.send(());
        watch();
    };
    thread::Builder::new().name("stalls".to_owned()).spawn(watch).expect("a thread");
    // What it takes to start it may not be had any more in a moment, and it would abort the process.
    has_begun.recv().expect("it begins");
    tell_panics();
    let now_ns = now_ns();
    Mutex::new(Meter { looked_ns: now_ns, asked_ns: now_ns, ..Meter::default() })
});

/// A stop-watch that knows what part of its time the machine took.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
    began_ns: u64,
}

impl Stopwatch {
    /// Starts one.
    #[must_use]
    pub fn start() -> Self {
        begin();
        Self { began: Instant::now(), began_ns: now_ns() }
    }

    /// One that was started then, while the processes that are counted were there already.
    #[must_use]
    pub fn since(began: Instant) -> Self {
        let ago_ns = u64::try_from(began.elapsed().as_nanos()).expect("a short time");
        Self { began, began_ns: now_ns().saturating_sub(ago_ns) }
    }

    /// The time since the start by the clock: for what must take at least so long.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time since the start, less what the machine took: for what may take at most so long.
    #[must_use]
    pub fn own(&self) -> Duration {
        let elapsed = self.began.elapsed();
        elapsed.saturating_sub(Duration::from_nanos(between(self.began_ns, now_ns())))
    }
}

/// Begins to count, if nothing did before.
pub fn begin() {
    drop(meter());
}

/// For how many of these nanoseconds of [`now_ns`] the machine kept processes from running.
#[must_use]
pub fn between(from_ns: u64, until_ns: u64) -> u64 {
    let mut meter = meter();
    meter.look();
    // A stall is known once it is over, which may be an instant behind the end.
    let stalled_ns = meter.total_ns - meter.total_at(from_ns);
    stalled_ns.min(until_ns.saturating_sub(from_ns))
}

/// Counts what this process waits for as well. One that has ended counts no more.
pub(crate) fn count(process: u32) {
    meter().processes.push(process);
}

fn meter() -> MutexGuard<'static, Meter> {
    METER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A test that fails says what the machine took of its last time.
fn tell_panics() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        hook(panic);
        let asked = (0..ASKED_MAX).find_map(|_| {
            METER.try_lock().ok().or_else(|| {
                thread::sleep(TICK);
                None
            })
        });
        if let Some(mut meter) = asked {
            meter.look();
            let (longest, all) = meter.since(now_ns().saturating_sub(TOLD_NS));
            let told = Duration::from_nanos(TOLD_NS);
            let (all, longest) = (all.min(told).as_millis(), longest.as_millis());
            // tests/gate/run.py reads it.
            eprintln!("the machine took {all} ms of the last {told:?}, {longest} ms in one piece");
        }
    }));
}

fn watch() {
    for tick in 0_u32.. {
        thread::sleep(TICK);
        let mut meter = meter();
        if tick % TICKS_BETWEEN_LOOKS == 0 {
            meter.look();
        } else {
            meter.wake(now_ns());
        }
    }
}

#[derive(Debug, Default)]
struct Meter {
    /// Beside this one.
    processes: Vec<u32>,
    /// How long each thread has waited for a processor, when that was last asked for.
    waited_ns: HashMap<(String, u32), u64>,
    /// When the watching thread, or who asks, was last here.
    looked_ns: u64,
    /// When the kernel was last asked.
    asked_ns: u64,
    total_ns: u64,
    /// The sum from an instant on.
    changes: VecDeque<(u64, u64)>,
    /// What a sleeper was late by, and when it woke: a stall in one piece. What threads waited for
    /// between two looks may be of many pieces.
    pieces: VecDeque<(u64, u64)>,
}

impl Meter {
    /// Asks the kernel, too.
    fn look(&mut self) {
        let now_ns = now_ns();
        self.wake(now_ns);
        let span_ns = now_ns.saturating_sub(mem::replace(&mut self.asked_ns, now_ns));
        let own = std::process::id();
        let mut waited_ns = 0;
        self.processes.retain(|process| fs::exists(format!("/proc/{process}")).unwrap_or(false));
        for process in self.processes.iter().chain([&own]) {
            let threads = threads_of(*process).into_iter().map(|(thread, total_ns)| {
                let known_ns = self.waited_ns.insert((thread, *process), total_ns);
                // Its wait before it was first seen is not of this time.
                known_ns.map_or(0, |known_ns| total_ns.saturating_sub(known_ns))
            });
            waited_ns += threads.max().unwrap_or(0);
        }
        self.add(now_ns, waited_ns.min(span_ns));
    }

    fn wake(&mut self, now_ns: u64) {
        let tick_ns = u64::try_from(TICK.as_nanos()).expect("a short time");
        let late_ns = now_ns.saturating_sub(self.looked_ns + tick_ns);
        if late_ns > LATE_NS_MIN {
            self.add(now_ns, late_ns);
            remember(&mut self.pieces, (now_ns, late_ns));
        }
        self.looked_ns = now_ns;
    }

    fn add(&mut self, now_ns: u64, stalled_ns: u64) {
        if stalled_ns > 0 {
            self.total_ns += stalled_ns;
            remember(&mut self.changes, (now_ns, self.total_ns));
        }
    }

    /// The longest stall since then, and all of them.
    fn since(&self, from_ns: u64) -> (Duration, Duration) {
        let since = self.pieces.iter().filter(|(at_ns, _)| *at_ns > from_ns);
        let longest_ns = since.map(|(_, late_ns)| *late_ns).max().unwrap_or(0);
        // A thread that wakes late has waited for a processor as well, and counts twice.
        let all_ns = self.total_ns - self.total_at(from_ns);
        (Duration::from_nanos(longest_ns), Duration::from_nanos(all_ns))
    }

    fn total_at(&self, at_ns: u64) -> u64 {
        let known = self.changes.partition_point(|(since_ns, _)| *since_ns <= at_ns);
        known.checked_sub(1).map_or(0, |last| self.changes[last].1)
    }
}

fn remember(changes: &mut VecDeque<(u64, u64)>, change: (u64, u64)) {
    if changes.len() == CHANGES_MAX {
        changes.pop_front();
    }
    changes.push_back(change);
}

/// The threads of a process, each with how long it has waited for a processor, in nanoseconds.
fn threads_of(process: u32) -> Vec<(String, u64)> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let waited = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    };
    let thread = |entry: fs::DirEntry| {
        Some((entry.file_name().to_string_lossy().into_owned(), waited(entry.path())?))
    };
    threads.flatten().filter_map(thread).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn meter_at(changes: &[(u64, u64)]) -> Meter {
        let mut meter = Meter::default();
        changes.iter().for_each(|(now_ns, stalled_ns)| meter.add(*now_ns, *stalled_ns));
        meter
    }

    #[test]
    fn a_stall_counts_from_when_it_was_seen() {
        let meter = meter_at(&[(10, 3), (20, 0), (30, 4)]);
        let totals = [9, 10, 29, 30, 99].map(|at_ns| meter.total_at(at_ns));
        assert_eq!(totals, [0, 3, 3, 7, 7]);
    }

    #[test]
    fn a_panic_is_told_of_the_longest_stall_and_of_all() {
        const MS: u64 = 1_000_000;
        let mut meter = Meter::default();
        // Late by 3, 1 and 4 ms; in between, processes waited for 20 ms in no one piece.
        for (woken_ms, waited_ms) in [(8, 0), (14, 20), (23, 0), (28, 0)] {
            meter.wake(woken_ms * MS);
            meter.add(woken_ms * MS, waited_ms * MS);
        }
        let told = [0, 8, 23, 28].map(|from_ms| meter.since(from_ms * MS));
        let expected = [(4, 27), (4, 24), (0, 0), (0, 0)];
        let expected = expected
            .map(|(longest, all)| (Duration::from_millis(longest), Duration::from_millis(all)));
        assert_eq!(told, expected);
    }

    #[test]
    fn one_who_wakes_in_time_has_not_stood_still() {
        let mut meter = Meter::default();
        meter.wake(6_000_000);
        assert_eq!(meter.total_ns, 0);
        meter.wake(21_000_000);
        assert_eq!((meter.total_ns, meter.looked_ns), (10_000_000, 21_000_000));
    }

    #[test]
    fn what_waits_for_a_processor_is_seen() {
        let began_ns = now_ns();
        let _ = between(began_ns, began_ns);
        // More threads than any machine of a test has processors.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let is_seen = Arc::new(AtomicBool::new(false));
        let rush: Vec<_> = (0..cores * 4)
            .map(|_| {
                let is_seen = is_seen.clone();
                thread::spawn(move || {
                    while !is_seen.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        let began = Instant::now();
        while between(began_ns, now_ns()) < 100_000_000 && began.elapsed() < crate::wait::PATIENCE {
            thread::sleep(TICK);
        }
        is_seen.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < crate::wait::PATIENCE, "it was not seen");
        rush.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}
