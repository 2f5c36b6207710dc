//! Whether a round holds, and what shows it if not.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tests::checker::{Checker, Report, UnderFaults, shortest};
use tests::history::{Event, Fun, Kind as Outcome};
use tests::scene::{Kind, LATE, Tempo};
use tests::stalls;

use crate::faults::{Done, told_within};

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// All that must hold does.
    Holds,
    /// It was told to stop before its time.
    Stopped,
    Broken(Box<Broken>),
}

/// A finding: something that does not hold.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) what: String,
    /// The shortest history that shows it; empty where none does.
    pub(crate) history: Vec<Event>,
    /// The faults that were done about then.
    pub(crate) faults: Vec<Done>,
    /// The whole history of the round.
    pub(crate) round: Vec<Event>,
}

impl Broken {
    /// Something that no history shows.
    pub(crate) fn plain(what: String) -> Verdict {
        let (history, faults, round) = (Vec::new(), Vec::new(), Vec::new());
        Verdict::Broken(Box::new(Self { what, history, faults, round }))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        let begun_ns = self.history.first().map_or(0, |event| event.t_ns);
        let at_ms = |t_ns: u64| (i128::from(t_ns) - i128::from(begun_ns)) / 1_000_000;
        for event in &self.history {
            let Event { t_ns, process, kind, f: call, key, token, share, .. } = event;
            let us = t_ns.saturating_sub(begun_ns) / 1_000;
            write!(f, "\n{us:>10} us  {process:<8} {call:?} {kind:?} {key}")?;
            token.map_or(Ok(()), |token| write!(f, " token {token}"))?;
            share.map_or(Ok(()), |share| write!(f, " as {share:?}"))?;
            event.error.as_deref().map_or(Ok(()), |error| write!(f, " ({error})"))?;
        }
        if !self.faults.is_empty() {
            write!(f, "\n\nFaults about then, in ms from the first line:\n")?;
        }
        for done in &self.faults {
            let (from, until) = (at_ms(done.from_ns), at_ms(done.until_ns));
            let name = crate::faults::row_of(done.what).name;
            write!(f, "\n{from:>8} to {until:>6}  {name}: {}", done.target)?;
        }
        Ok(())
    }
}

/// The events and faults that one round hands to the next.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The grants and writes with the highest tokens, as if they had just been made.
    carried: Vec<Event>,
    /// The faults of the round before: what they broke may not be over.
    faults: Vec<Done>,
}

/// Judges a round; its figures, or what does not hold.
pub(crate) fn judge(
    kind: &Kind,
    memory: &mut Memory,
    (events, killed): (Vec<Event>, Vec<String>),
    faults: &[Done],
) -> Result<Report, Box<Broken>> {
    let times = kind.times(Tempo::Steady);
    let about: Vec<Done> = memory.faults.iter().chain(faults).cloned().collect();
    let rule = UnderFaults {
        excuses: about.iter().flat_map(|done| done.excuses(kind, times)).collect(),
        told_within: told_within(times),
        granted_within: times.recheck + Duration::from_millis(1_500),
        stalled_between: Some(stalls::between),
    };
    let checker = Checker::new().slack(LATE).under_faults(rule);
    let checker = killed.into_iter().fold(checker, Checker::killed);
    let mut all = std::mem::take(&mut memory.carried);
    let carried = all.len() as u64;
    all.extend(events);
    let found = checker.check(&all);
    memory.carried = highest(&all);
    memory.faults = faults.to_vec();
    found.map(|report| without(report, carried)).map_err(|found| {
        let violation = &found[0];
        let history = shortest(&checker, &all, violation);
        let span = |at: Option<&Event>| at.map_or(0, |event| event.t_ns);
        let (first, last) = (span(history.first()), span(history.last()));
        let near = |done: &&Done| {
            done.from_ns <= last + 1_000_000_000 && first <= done.until_ns + 15_000_000_000
        };
        let faults = about.iter().filter(near).cloned().collect();
        let finding = if violation.is_of_safety() { "a finding of safety: " } else { "" };
        Box::new(Broken { what: format!("{finding}{violation}"), history, faults, round: all })
    })
}

/// The figures of a round without what it was handed.
fn without(report: Report, carried: u64) -> Report {
    let grants = report.grants.saturating_sub(carried / 2);
    Report { grants, ..report }
}

/// The kinds of events that are handed on of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Best {
    Alone,
    Shared,
    Write,
}

/// For each key the grants of the highest token that was granted to one alone, of the highest that
/// was granted to one who shares it, and of the highest one that was written with, and that write.
fn highest(events: &[Event]) -> Vec<Event> {
    let mut best: BTreeMap<(&str, Best), &Event> = BTreeMap::new();
    let done = || events.iter().filter(|event| event.kind == Outcome::Ok && event.token.is_some());
    for event in done() {
        let what = match event.f {
            Fun::Acquire if event.share.is_none() => Best::Alone,
            Fun::Acquire => Best::Shared,
            Fun::Write => Best::Write,
            Fun::Release | Fun::Renew | Fun::Downgrade => continue,
        };
        let entry = best.entry((&event.key, what)).or_insert(event);
        if event.token > entry.token {
            *entry = event;
        }
    }
    let mut carried = Vec::new();
    for ((key, what), event) in &best {
        let (process, token) = (format!("before/{key}/{what:?}"), event.token);
        let mut step = |f: Fun, t_ns: u64| {
            for (kind, before_ns) in [(Outcome::Invoke, 1), (Outcome::Ok, 0)] {
                let t_ns = t_ns.saturating_sub(before_ns);
                let share = event.share;
                carried.push(Event { token, share, ..Event::new(t_ns, &process, kind, f, key) });
            }
        };
        let is_write = *what == Best::Write;
        let granted_as_well =
            best.get(&(key, Best::Alone)).is_some_and(|grant| grant.token == token);
        if !is_write || !granted_as_well {
            // A write comes some time after its grant, between which others may have been granted.
            let grant = done()
                .find(|it| it.f == Fun::Acquire && it.key == event.key && it.token == event.token);
            step(Fun::Acquire, grant.map_or(event.t_ns.saturating_sub(2), |grant| grant.t_ns));
        }
        if is_write {
            step(Fun::Write, event.t_ns);
        }
    }
    carried
}

#[cfg(test)]
mod test {
    use tests::history::Share;
    use tests::scene::layouts::REDIS;

    use super::*;

    fn grant(t_ns: u64, token: u64) -> [Event; 2] {
        let event = |t_ns, kind| Event {
            token: (kind == Outcome::Ok).then_some(token),
            ..Event::new(t_ns, "p", kind, Fun::Acquire, "k")
        };
        [event(t_ns, Outcome::Invoke), event(t_ns + 1, Outcome::Ok)]
    }

    fn written(t_ns: u64, token: u64) -> [Event; 2] {
        [Outcome::Invoke, Outcome::Ok].map(|kind| {
            let t_ns = t_ns + u64::from(kind == Outcome::Ok);
            Event { token: Some(token), ..Event::new(t_ns, "p", kind, Fun::Write, "k") }
        })
    }

    #[test]
    fn what_one_round_granted_binds_the_next() {
        for (first, then, holds) in [(5, 6, true), (5, 4, false), (5, 5, false)] {
            let mut memory = Memory::default();
            let round = |memory: &mut Memory, events: Vec<Event>| {
                judge(&REDIS, memory, (events, Vec::new()), &[])
            };
            let begin = [&grant(10, first)[..], &written(20, first)].concat();
            assert_eq!(round(&mut memory, begin).unwrap().grants, 1);
            let next = [&grant(100, then)[..], &written(120, then)].concat();
            let found = round(&mut memory, next);
            assert_eq!(found.is_ok(), holds, "{first}, then {then}: {found:?}");
        }
    }

    #[test]
    fn a_reader_of_one_round_binds_the_writers_of_the_next_and_no_reader() {
        let reads =
            |events: [Event; 2]| events.map(|event| Event { share: Some(Share::Reader), ..event });
        let next = [grant(100, 5), grant(100, 4), reads(grant(100, 4)), reads(grant(100, 2))];
        for (then, holds) in next.into_iter().zip([false, false, true, false]) {
            let mut memory = Memory::default();
            let first = [grant(1, 3), reads(grant(10, 6))].concat();
            judge(&REDIS, &mut memory, (first, Vec::new()), &[]).unwrap();
            let found = judge(&REDIS, &mut memory, (then.to_vec(), Vec::new()), &[]);
            assert_eq!(found.is_ok(), holds, "{then:?}: {found:?}");
        }
    }

    #[test]
    fn a_write_that_comes_after_a_later_grant_is_handed_on_with_its_own() {
        let mut memory = Memory::default();
        let late = [&grant(10, 5)[..], &grant(20, 6), &written(30, 5)].concat();
        for events in [late, written(50, 6).to_vec()] {
            judge(&REDIS, &mut memory, (events, Vec::new()), &[]).unwrap();
        }
    }
}
