//! The shortest history that still shows a violation.

use std::collections::HashMap;

use super::{Checker, Violation};
use crate::history::{Event, Fun, Kind};

/// A call with its outcome, or one line that is none.
type Step = Vec<Event>;

/// The calls without which `violation` would not be found in `events`.
#[must_use]
pub fn shortest(checker: &Checker, events: &[Event], violation: &Violation) -> Vec<Event> {
    let shows = |steps: &[Step]| {
        let events: Vec<Event> = steps.iter().flatten().cloned().collect();
        checker.check(&events).is_err_and(|found| found.contains(violation))
    };
    let all = steps(events);
    let of_key: Vec<Step> = all.iter().filter(|step| is_of_key(step, violation)).cloned().collect();
    let named: Vec<Step> =
        of_key.iter().filter(|step| is_named(step, violation)).cloned().collect();
    let begin = [named, of_key].into_iter().find(|steps| shows(steps)).unwrap_or(all);
    let mut shortest: Vec<Event> = without_needless(begin, shows).into_iter().flatten().collect();
    shortest.sort_by_key(|event| event.t_ns);
    shortest
}

fn is_of_key(step: &Step, violation: &Violation) -> bool {
    violation.key().is_none_or(|key| step[0].key == key)
}

fn is_named(step: &Step, violation: &Violation) -> bool {
    let (tokens, process) = (violation.tokens(), violation.process());
    step.iter().any(|event| {
        let is_of_token = event.token.is_some_and(|token| tokens.contains(&token));
        is_of_token || process.is_some_and(|process| event.process == process)
    })
}

/// Groups lines, in the order of time, into what can be left out only together.
fn steps(events: &[Event]) -> Vec<Step> {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.t_ns);
    let (mut steps, mut open) = (Vec::<Step>::new(), HashMap::<&str, usize>::new());
    for event in events {
        let process = event.process.as_str();
        match open.get(process).copied() {
            Some(step) if !matches!(event.f, Fun::Renew | Fun::Downgrade) => {
                steps[step].push(event.clone());
                open.remove(process);
            }
            _ => {
                if event.kind == Kind::Invoke {
                    open.insert(process, steps.len());
                }
                steps.push(vec![event.clone()]);
            }
        }
    }
    steps
}

/// Leaves out halves, then quarters, and so on to single steps, while the rest still shows it.
fn without_needless(mut steps: Vec<Step>, shows: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut size = steps.len().div_ceil(2);
    while size > 0 && shows(&steps) {
        let mut from = 0;
        while from < steps.len() {
            let until = (from + size).min(steps.len());
            let rest = [&steps[..from], &steps[until..]].concat();
            if shows(&rest) {
                steps = rest;
            } else {
                from = until;
            }
        }
        size /= 2;
    }
    steps
}
