//! The demands on a run in which faults happen at known times, by what holders knew.
//!
//! A holder that was stopped cannot release, and a machine that is busy notices late. So these
//! rules take a hold for as long as its holder *knew* of it, which it wrote down
//! ([`Process::holds`](crate::history::Process::holds)): from the first such line to the last.
//! They need no allowance, but for what a fault may break: an [`Excuse`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::calls::{Call, Calls, Hold};
use super::violation::Violation;
use crate::history::{Kind, Share};

/// A time in which a fault, and what it leads to, may break what holds at all other times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excuse {
    /// From when on, in nanoseconds of the history's clock.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// A second holder may begin, who is told apart by its token, until the first one is told.
    pub two_holders: bool,
    /// A process that was not yet told may pass its lock on under lower tokens than its successor's.
    pub old_tokens: bool,
    /// A free key may be left alone.
    pub waiting: bool,
    /// The store may not be there.
    pub unavailable: bool,
}

/// The demands on such a run; see [`Checker::under_faults`](super::Checker::under_faults).
#[derive(Clone, Debug, Default)]
pub struct UnderFaults {
    /// The excuses for what the faults of the run may break.
    pub excuses: Vec<Excuse>,
    /// Within which time of a second grant the first holder must know of its loss (V3).
    pub told_within: Duration,
    /// Within which time a free key must be granted to who waits for it (V5).
    pub granted_within: Duration,
    /// How long the machine kept what takes part from running, between two instants of the history's
    /// clock. A store that stood still is well.
    pub stalled_between: Option<fn(u64, u64) -> u64>,
}

impl UnderFaults {
    fn excused(&self, what: fn(&Excuse) -> bool, from_ns: u64, until_ns: u64) -> bool {
        let about = |one: &Excuse| one.from_ns <= until_ns && from_ns <= one.until_ns;
        self.excuses.iter().any(|one| what(one) && about(one))
    }

    /// Whether a token that was granted then may be lower than one before it.
    pub(super) fn excuses_token(&self, granted_ns: u64) -> bool {
        self.excused(|one| one.old_tokens, granted_ns, granted_ns)
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Exclusion, and V3 where it is excused.
pub(super) fn exclusion(rule: &UnderFaults, calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    type Part<'a> = (u64, u64, Option<Share>, &'a Hold<'a>);
    let mut by_key: BTreeMap<&str, Vec<Part<'_>>> = BTreeMap::new();
    for hold in &calls.holds {
        let parts = hold.known_ns.map(|known| hold.parts(known)).into_iter().flatten();
        let parts = parts.map(|(first, last, share)| (first, last, share, hold));
        by_key.entry(hold.key()).or_default().extend(parts);
    }
    for (key, mut holds) in by_key {
        holds.sort_by_key(|(first, ..)| *first);
        let mut others: Vec<(u64, Option<Share>, &Hold<'_>)> = Vec::new();
        for (first, last, share, hold) in holds {
            others.retain(|(until, ..)| first < *until);
            let beside = others.iter().filter(|(_, other, it)| {
                it.token != hold.token && !Share::are_compatible(share, *other)
            });
            for (until, _, other) in beside {
                let (key, held, granted) = (key.to_owned(), other.token, hold.token);
                let for_ns = last.min(*until) - first;
                if !rule.excused(|one| one.two_holders, first, first) {
                    violations.push(Violation::Overlap { key, held, granted });
                } else if for_ns > ns(rule.told_within) {
                    violations.push(Violation::ToldLate { key, held, granted, for_ns });
                }
            }
            others.push((last, share, hold));
        }
    }
}

/// V3: whoever looks at its clock and finds its time over has been told.
pub(super) fn told(calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    violations.extend(calls.untold.iter().map(|event| Violation::NotTold {
        key: event.key.clone(),
        process: event.process.clone(),
        token: event.token,
    }));
}

/// V5: a key that was given back goes to who waits for it.
pub(super) fn liveness(rule: &UnderFaults, calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    let within_ns = ns(rule.granted_within);
    let mut granted: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for hold in &calls.holds {
        granted.entry(hold.key()).or_default().push(hold.from_ns);
    }
    granted.values_mut().for_each(|times| times.sort_unstable());
    for release in &calls.releases {
        let Some(free) = release.ok() else { continue };
        let key = release.invoke.key.as_str();
        let times = granted.get(key).map_or(&[][..], Vec::as_slice);
        // It may be granted before the one who gave it back hears of that.
        let next = times.partition_point(|time| *time < release.invoke.t_ns);
        let until_ns = times.get(next).copied().unwrap_or(calls.end_ns);
        let due_ns = free.t_ns.saturating_add(within_ns);
        let shares = |hold: &Hold<'_>| {
            let over_ns = hold.until_ns.or(hold.known_ns.map(|known| known.1 + within_ns));
            let is_there = hold.from_ns <= due_ns && over_ns.is_none_or(|over| over > free.t_ns);
            hold.key() == key && is_there && hold.is_ever_shared()
        };
        if calls.holds.iter().any(|hold| Some(hold.token) != release.invoke.token && shares(hold)) {
            // It is not free.
            continue;
        }
        if until_ns <= due_ns || rule.excused(|one| one.waiting, free.t_ns, due_ns) {
            continue;
        }
        let waits = |call: &&Call<'_>| {
            let end_ns = call.outcome.map_or(0, |end| end.t_ns);
            let is_of_it = call.invoke.key == key && call.invoke.budget_ns.is_some();
            is_of_it && call.invoke.t_ns <= free.t_ns && end_ns > due_ns
        };
        if let Some(waiter) = calls.acquires.iter().find(waits) {
            violations.push(Violation::LeftAlone {
                key: key.to_owned(),
                token: release.invoke.token,
                waiter: waiter.invoke.process.clone(),
                for_ns: until_ns - free.t_ns,
            });
        }
    }
}

/// A wait that may be over before a well store answers on a busy machine: 1 s.
const SHORT_NS: u64 = 1_000_000_000;

/// V8: an error says what happened.
pub(super) fn answers(rule: &UnderFaults, calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    for call in &calls.acquires {
        let Some(end) = call.outcome.filter(|end| end.kind != Kind::Ok) else { continue };
        let Some(error) = end.error.as_deref() else { continue };
        let took_ns = end.t_ns - call.invoke.t_ns;
        let is_true = match error {
            "timeout" => call.invoke.budget_ns.is_some_and(|budget_ns| took_ns >= budget_ns),
            error if error.starts_with("unavailable") => {
                let stalled =
                    rule.stalled_between.map(|stalled| stalled(call.invoke.t_ns, end.t_ns));
                let short_ns = SHORT_NS + stalled.unwrap_or(0);
                let is_short = call.invoke.budget_ns.is_some_and(|budget_ns| budget_ns < short_ns);
                is_short || rule.excused(|one| one.unavailable, call.invoke.t_ns, end.t_ns)
            }
            _ => false,
        };
        if !is_true {
            violations.push(Violation::WrongAnswer {
                key: call.invoke.key.clone(),
                process: call.invoke.process.clone(),
                error: error.to_owned(),
                took_ns,
            });
        }
    }
}
