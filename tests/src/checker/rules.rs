//! One function for each demand.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Checker;
use super::calls::{Call, Calls, Hold};
use super::violation::Violation;
use crate::history::Share;

/// No token is granted twice.
pub(super) fn unique_tokens(calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    for holds in by_token(calls).values() {
        for pair in holds.windows(2).filter(|pair| pair[0].token == pair[1].token) {
            violations.push(Violation::TokenTwice {
                key: pair[0].key().to_owned(),
                token: pair[0].token,
                processes: [pair[0].process().to_owned(), pair[1].process().to_owned()],
            });
        }
    }
}

/// Tokens grow in the order of real time.
pub(super) fn growing_tokens(
    checker: &Checker,
    calls: &Calls<'_>,
    violations: &mut Vec<Violation>,
) {
    let excused = |hold: &Hold<'_>| {
        checker.faults.as_ref().is_some_and(|rule| rule.excuses_token(hold.from_ns))
    };
    for holds in by_token(calls).values() {
        // An excused hold comes behind nobody.
        let invoked = |hold: &Hold<'_>| if excused(hold) { 0 } else { hold.grant.invoke.t_ns };
        let span = |hold: &Hold<'_>| Span {
            token: hold.token,
            is_alone: hold.share().is_none(),
            invoked_ns: invoked(hold),
            done_ns: hold.from_ns,
        };
        for (first, then) in backward(holds.iter().map(span)) {
            let key = holds[0].key().to_owned();
            violations.push(Violation::OutOfOrder { key, first, then });
        }
    }
}

/// Accepted writes never go back.
pub(super) fn writes(calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    let mut by_key: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for write in &calls.writes {
        if let (Some(end), Some(token)) = (write.ok(), write.invoke.token) {
            let spans = by_key.entry(&write.invoke.key).or_default();
            let (invoked_ns, done_ns) = (write.invoke.t_ns, end.t_ns);
            spans.push(Span { token, is_alone: true, invoked_ns, done_ns });
        }
    }
    for (key, mut spans) in by_key {
        spans.sort_unstable_by_key(|span| (span.token, span.invoked_ns));
        for (first, then) in backward(spans.into_iter()) {
            violations.push(Violation::WriteWentBack { key: key.to_owned(), first, then });
        }
    }
}

/// Releases and writes carry a token that was granted.
pub(super) fn known_tokens(calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    let granted: HashSet<(&str, u64)> =
        calls.holds.iter().map(|hold| (hold.key(), hold.token)).collect();
    let used = calls.releases.iter().chain(&calls.writes);
    let unknown = |call: &&Call<'_>| {
        let token = call.invoke.token;
        token.is_none_or(|token| !granted.contains(&(call.invoke.key.as_str(), token)))
    };
    violations.extend(used.filter(unknown).map(|call| Violation::UnknownToken {
        key: call.invoke.key.clone(),
        token: call.invoke.token,
        process: call.invoke.process.clone(),
    }));
}

/// Every bounded acquire has answered in time.
pub(super) fn budgets(checker: &Checker, calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    let slack_ns = u64::try_from(checker.slack.as_nanos()).unwrap_or(u64::MAX);
    for acquire in &calls.acquires {
        let Some(budget_ns) = acquire.invoke.budget_ns else { continue };
        let took_ns = acquire.outcome.map(|end| end.t_ns - acquire.invoke.t_ns);
        if took_ns.is_none() && checker.was_killed(&acquire.invoke.process) {
            continue;
        }
        let lasted_ns = took_ns.unwrap_or(calls.end_ns - acquire.invoke.t_ns);
        // Nobody can answer a process that does not run.
        let stalled_ns = acquire.outcome.and_then(|end| end.stalled_ns).unwrap_or(0);
        if lasted_ns.saturating_sub(stalled_ns) > budget_ns.saturating_add(slack_ns) {
            violations.push(Violation::LateAnswer {
                key: acquire.invoke.key.clone(),
                process: acquire.invoke.process.clone(),
                budget_ns,
                took_ns,
            });
        }
    }
}

/// No grant is complete before the hold of the token before it has ended.
pub(super) fn overlaps(checker: &Checker, calls: &Calls<'_>, violations: &mut Vec<Violation>) {
    let until_of = |hold: &Hold<'_>| {
        hold.until_ns.unwrap_or_else(|| {
            // A killed holder held until its death, which is not before its last event.
            let killed = checker.was_killed(hold.process());
            if killed { calls.last_ns[hold.process()] } else { u64::MAX }
        })
    };
    for holds in by_token(calls).values() {
        beside(holds, until_of, violations);
        let alone: Vec<_> = holds.iter().filter(|hold| hold.share().is_none()).collect();
        for pair in alone.windows(2) {
            let [before, next] = pair else { continue };
            let until_ns = until_of(before);
            let told_late_ns = match u64::try_from(checker.told_late.as_nanos()) {
                Ok(0) => 0,
                Ok(told_late_ns) => told_late_ns.saturating_add(before.stalled_ns),
                Err(_) => u64::MAX,
            };
            if next.from_ns.saturating_add(told_late_ns) < until_ns {
                violations.push(Violation::Overlap {
                    key: before.key().to_owned(),
                    held: before.token,
                    granted: next.token,
                });
            }
        }
    }
}

/// Nobody who shares the key is beside one that it cannot be shared with.
fn beside(
    holds: &[Hold<'_>],
    until_of: impl Fn(&Hold<'_>) -> u64,
    violations: &mut Vec<Violation>,
) {
    let parts = |hold: &Hold<'_>| hold.parts((hold.from_ns, until_of(hold)));
    for (at, shared) in holds.iter().enumerate().filter(|(_, hold)| hold.is_ever_shared()) {
        let others = holds.iter().enumerate();
        for (_, other) in
            others.filter(|(nth, it)| *nth < at || (*nth > at && !it.is_ever_shared()))
        {
            let (mine, theirs) = (parts(shared), parts(other));
            let clash = mine.iter().any(|(from, until, share)| {
                theirs.iter().any(|(begin, end, way)| {
                    from.max(begin) < until.min(end) && !Share::are_compatible(*share, *way)
                })
            });
            if clash {
                let (held, granted) =
                    (shared.token.min(other.token), shared.token.max(other.token));
                violations.push(Violation::Overlap { key: shared.key().to_owned(), held, granted });
            }
        }
    }
}

/// The holds of each key, by rising token.
fn by_token<'a>(calls: &Calls<'a>) -> HashMap<&'a str, Vec<Hold<'a>>> {
    let mut by_key: HashMap<&str, Vec<Hold<'a>>> = HashMap::new();
    for hold in &calls.holds {
        by_key.entry(hold.key()).or_default().push(*hold);
    }
    for holds in by_key.values_mut() {
        holds.sort_by_key(|hold| (hold.token, hold.from_ns));
    }
    by_key
}

/// A grant or a write: asked for at one time and had at another, under a token.
#[derive(Clone, Copy)]
struct Span {
    token: u64,
    /// Not beside others; those who are beside each other are in no order.
    is_alone: bool,
    invoked_ns: u64,
    done_ns: u64,
}

/// The pairs of tokens `(higher, lower)` where the higher was done before the lower was invoked. At
/// least one of the two is alone. `spans` come by rising token.
fn backward(spans: impl Iterator<Item = Span>) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    // The latest invocation among strictly lower tokens, and among all so far: of those who were
    // alone, and of all.
    let (mut lower, mut latest) = ([None; 2], [None; 2]);
    let mut current = None;
    for Span { token, is_alone, invoked_ns, done_ns } in spans {
        if current != Some(token) {
            lower = latest;
            current = Some(token);
        }
        if let Some((invoked_lower, token_lower)) = lower[usize::from(is_alone)]
            && done_ns < invoked_lower
        {
            found.push((token, token_lower));
        }
        let this = Some((invoked_ns, token));
        latest[1] = latest[1].max(this);
        if is_alone {
            latest[0] = latest[0].max(this);
        }
    }
    found
}
