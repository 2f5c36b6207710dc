//! Judges a history.
//!
//! A test that asserts while it runs sees only what its author thought of. [`Checker`] takes the
//! whole [`history`](crate::history) of a run and holds it against the invariants of a fenced
//! lock:
//!
//! | what must hold | else |
//! |---|---|
//! | no token is granted twice for one key | [`Violation::TokenTwice`] |
//! | a grant that ended before another was asked for has the lower token | [`Violation::OutOfOrder`] |
//! | a write accepted after another carries no lower token | [`Violation::WriteWentBack`] |
//! | releases and writes carry a token that was granted | [`Violation::UnknownToken`] |
//! | an acquire answers within its budget and [`Checker::slack`] | [`Violation::LateAnswer`] |
//! | with [`Checker::exclusive`]: holds do not overlap | [`Violation::Overlap`] |
//! | with [`Checker::under_faults`]: nor do they by what holders knew, unless a fault excuses it | the same |
//! | … and then the first holder is told in time | [`Violation::ToldLate`] |
//! | … whose time is over was told | [`Violation::NotTold`] |
//! | … a free key is granted to who waits for it | [`Violation::LeftAlone`] |
//! | … an error says what happened | [`Violation::WrongAnswer`] |
//!
//! Readers may hold beside readers, and permits beside those of other numbers
//! ([`Share`](crate::history::Share)); their tokens are in no order among each other. A writer that
//! downgraded is a reader from then on.
//!
//! ```
//! use tests::checker::Checker;
//! use tests::history::{Fun, Recorder};
//!
//! let history = Recorder::in_memory();
//! for (process, token) in [("a", 1), ("b", 2)] {
//!     let process = history.process(process);
//!     process.invoke(Fun::Acquire, "k").begin().ok(Some(token));
//!     process.invoke(Fun::Release, "k").token(token).begin().ok(None);
//! }
//! let report = Checker::new().exclusive().check(&history.events()).unwrap();
//! assert_eq!(report.grants, 2);
//! ```
//!
//! - `calls`: pairs the lines of a history into calls.
//! - `rules`: one function for each demand. `faults`: the demands on a run with known faults.
//! - `violation`: the reasons to refuse a history. `shortest`: the shortest history that shows one.
//! - `table`, `table_faults`: histories that must be refused, and their good twins.

mod calls;
mod faults;
mod rules;
mod shortest;
#[cfg(test)]
mod table;
#[cfg(test)]
mod table_faults;
mod violation;

use std::time::Duration;

use crate::history::{Event, Kind};
use calls::Calls;
pub use faults::{Excuse, UnderFaults};
pub use shortest::shortest;
pub use violation::Violation;

/// The demands on a history.
#[derive(Clone, Debug)]
pub struct Checker {
    exclusive: bool,
    told_late: Duration,
    has_former_master: bool,
    slack: Duration,
    killed: Vec<String>,
    faults: Option<UnderFaults>,
}

/// The figures of a history that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Acquires that were granted.
    pub grants: u64,
    /// Acquires that certainly failed, or whose outcome nobody knows.
    pub refusals: u64,
    /// Fenced writes that were accepted.
    pub writes_accepted: u64,
    /// Fenced writes that were refused.
    pub writes_refused: u64,
    /// Losses that holders were told of.
    pub losses: u64,
    /// The longest time from an acquire to its answer, in nanoseconds.
    pub longest_wait_ns: u64,
    /// Answers more than 20 ms after their budget, and the time off in which the process did not
    /// run.
    pub late_answers: u64,
    /// How long past its budget the latest of them came, in nanoseconds.
    pub latest_ns: u64,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// The invariants that hold under every fault, with 20 ms of slack above a wait budget.
    #[must_use]
    pub fn new() -> Self {
        Checker {
            exclusive: false,
            told_late: Duration::ZERO,
            has_former_master: false,
            slack: Duration::from_millis(20),
            killed: Vec::new(),
            faults: None,
        }
    }

    /// For runs in which a master hangs, is succeeded, and goes on: for a moment it grants to who
    /// has not heard of its successor, and the tasks of that process hand the key on under tokens
    /// lower than those of the successor. Tokens are unique then, and writes still never go back.
    #[must_use]
    pub fn with_a_former_master(mut self) -> Self {
        self.has_former_master = true;
        self
    }

    /// Also demands that no two holders overlap, as seen by themselves.
    ///
    /// For runs in which nobody is frozen or cut off: a frozen holder cannot know that its lease
    /// has passed on, and only the fence protects against it.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Also demands what holds under faults whose times are known, by what holders knew.
    #[must_use]
    pub fn under_faults(mut self, rule: UnderFaults) -> Self {
        self.faults = Some(rule);
        self
    }

    /// As [`exclusive`](Self::exclusive), where a busy process may write down so much later that it
    /// was told of a loss.
    #[must_use]
    pub fn exclusive_but(self, told_late: Duration) -> Self {
        Self { told_late, ..self.exclusive() }
    }

    /// How much later than its budget an acquire may answer; 20 ms by default.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// Excuses what `process`, and its tasks `process/…`, never finished: it was killed.
    #[must_use]
    pub fn killed(mut self, process: impl Into<String>) -> Self {
        self.killed.push(process.into());
        self
    }

    /// Judges `events`, in any order.
    ///
    /// # Errors
    ///
    /// Everything that does not hold; a history that makes no sense is one
    /// [`Violation::Malformed`].
    pub fn check(&self, events: &[Event]) -> Result<Report, Vec<Violation>> {
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_by_key(|event| event.t_ns);
        let calls = Calls::pair(&events).map_err(|violation| vec![violation])?;
        let mut violations = Vec::new();
        rules::unique_tokens(&calls, &mut violations);
        if !self.has_former_master {
            rules::growing_tokens(self, &calls, &mut violations);
        }
        rules::writes(&calls, &mut violations);
        rules::known_tokens(&calls, &mut violations);
        rules::budgets(self, &calls, &mut violations);
        if self.exclusive {
            rules::overlaps(self, &calls, &mut violations);
        }
        if let Some(rule) = &self.faults {
            faults::exclusion(rule, &calls, &mut violations);
            faults::told(&calls, &mut violations);
            faults::liveness(rule, &calls, &mut violations);
            faults::answers(rule, &calls, &mut violations);
        }
        if violations.is_empty() { Ok(report(&calls)) } else { Err(violations) }
    }

    fn was_killed(&self, process: &str) -> bool {
        self.killed.iter().any(|killed| {
            process
                .strip_prefix(killed.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

fn report(calls: &Calls<'_>) -> Report {
    let mut report = Report { losses: calls.losses, ..Report::default() };
    for acquire in &calls.acquires {
        match acquire.outcome {
            Some(end) if end.kind == Kind::Ok => report.grants += 1,
            _ => report.refusals += 1,
        }
        let wait_ns = acquire.outcome.map_or(0, |end| end.t_ns - acquire.invoke.t_ns);
        report.longest_wait_ns = report.longest_wait_ns.max(wait_ns);
        let stalled_ns = acquire.outcome.and_then(|end| end.stalled_ns).unwrap_or(0);
        let budget_ns = acquire.invoke.budget_ns.unwrap_or(u64::MAX);
        let late_ns = wait_ns.saturating_sub(stalled_ns).saturating_sub(budget_ns);
        if late_ns > 20_000_000 {
            report.late_answers += 1;
            report.latest_ns = report.latest_ns.max(late_ns);
        }
    }
    for write in &calls.writes {
        match write.outcome.map(|end| end.kind) {
            Some(Kind::Ok) => report.writes_accepted += 1,
            Some(Kind::Fail) => report.writes_refused += 1,
            _ => {}
        }
    }
    report
}
