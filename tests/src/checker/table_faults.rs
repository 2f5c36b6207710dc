//! Histories under faults whose times are known, and the shortest that show what is wrong.

use std::time::Duration;

use super::table::{A, B, Line, history, strict, verdict};
use super::{Checker, Excuse, UnderFaults, Violation, shortest};
use crate::history::Fun::{Acquire, Release, Renew};
use crate::history::Kind::{Fail, Info, Invoke, Ok as Done};

/// A checker of what holders knew, under faults that excuse what `excuse` says until 100.
fn known(excuse: Excuse) -> Checker {
    stalled(excuse, None)
}

/// The same, on a machine that takes so much of the time.
fn stalled(excuse: Excuse, stalled_between: Option<fn(u64, u64) -> u64>) -> Checker {
    let excuses = vec![Excuse { until_ns: 100, ..excuse }];
    let (told_within, granted_within) = (Duration::from_nanos(20), Duration::from_nanos(10));
    let rule = UnderFaults { excuses, told_within, granted_within, stalled_between };
    Checker::new().slack(Duration::ZERO).under_faults(rule)
}

/// A is granted 1, knows of it until 50, and B is granted 2 at `then`.
fn both_know(then: u64) -> [Line; 7] {
    [
        (0, A, Invoke, Acquire, None),
        (1, A, Done, Acquire, Some(1)),
        (2, A, Done, Renew, Some(1)),
        (50, A, Done, Renew, Some(1)),
        (then - 2, B, Invoke, Acquire, None),
        (then - 1, B, Done, Acquire, Some(2)),
        (then, B, Done, Renew, Some(2)),
    ]
}

#[test]
fn two_who_know_at_once_that_they_hold_are_refused_unless_a_fault_excuses_it_for_a_while() {
    let excused = Excuse { two_holders: true, ..Excuse::default() };
    let mut lines = both_know(40).to_vec();
    lines.push((70, B, Done, Renew, Some(2)));
    let found = verdict(&known(Excuse::default()), &lines);
    assert!(matches!(found[..], [Violation::Overlap { held: 1, granted: 2, .. }]), "{found:?}");
    assert_eq!(verdict(&known(excused), &lines), [], "told within 20");
    lines[2..].iter_mut().filter(|line| line.1 == B).for_each(|line| line.0 -= 30);
    let found = verdict(&known(excused), &lines);
    assert!(matches!(found[..], [Violation::ToldLate { for_ns: 20.., .. }]), "{found:?}");
    assert_eq!(verdict(&known(Excuse::default()), &both_know(51)), [], "one after the other");
}

#[test]
fn who_was_stopped_and_asks_when_it_goes_on_is_no_second_holder() {
    let stopped = [
        (0, A, Invoke, Acquire, None),
        (1, A, Done, Acquire, Some(1)),
        (2, A, Done, Renew, Some(1)),
        (20, B, Invoke, Acquire, None),
        (21, B, Done, Acquire, Some(2)),
        (22, B, Done, Renew, Some(2)),
        (90, A, Fail, Renew, Some(1)),
    ];
    assert_eq!(verdict(&known(Excuse::default()), &stopped), []);
    let untold = [&stopped[..6], &[(90, A, Info, Renew, Some(1))]].concat();
    let found = verdict(&known(Excuse::default()), &untold);
    assert!(matches!(found[..], [Violation::NotTold { token: Some(1), .. }]), "{found:?}");
}

#[test]
fn a_lower_token_after_a_higher_one_is_excused_only_where_a_fault_does() {
    let lines = |at: u64| {
        [
            (0, A, Invoke, Acquire, None),
            (1, A, Done, Acquire, Some(9)),
            (at, B, Invoke, Acquire, None),
            (at + 1, B, Done, Acquire, Some(8)),
        ]
    };
    let excused = known(Excuse { old_tokens: true, ..Excuse::default() });
    assert_eq!(verdict(&excused, &lines(50)), []);
    for (checker, at) in [(&known(Excuse::default()), 50), (&excused, 120)] {
        let found = verdict(checker, &lines(at));
        assert!(matches!(found[..], [Violation::OutOfOrder { .. }]), "at {at}: {found:?}");
    }
}

#[test]
fn a_free_key_that_is_left_alone_is_found_where_somebody_waits_for_it() {
    let lines = [
        (0, A, Invoke, Acquire, None),
        (1, A, Done, Acquire, Some(1)),
        (2, B, Invoke, Acquire, None),
        (3, A, Invoke, Release, Some(1)),
        (4, A, Done, Release, Some(1)),
        (90, B, Done, Acquire, Some(2)),
    ];
    let found = verdict(&known(Excuse::default()), &lines);
    assert!(matches!(found[..], [Violation::LeftAlone { for_ns: 86, .. }]), "{found:?}");
    assert_eq!(verdict(&known(Excuse { waiting: true, ..Excuse::default() }), &lines), []);
    let mut soon = lines;
    soon[5].0 = 14;
    assert_eq!(verdict(&known(Excuse::default()), &soon), []);
    let mut nobody = lines;
    nobody[2].0 = 89;
    assert_eq!(verdict(&known(Excuse::default()), &nobody), []);
}

#[test]
fn an_error_that_does_not_say_what_happened_is_refused() {
    let unavailable = known(Excuse { unavailable: true, ..Excuse::default() });
    for (error, took, checker, is_true) in [
        ("timeout", 100, &known(Excuse::default()), true),
        ("timeout", 99, &known(Excuse::default()), false),
        ("overloaded", 100, &known(Excuse::default()), false),
        ("unavailable: gone", 50, &unavailable, true),
    ] {
        let mut events = history(&[(0, A, Invoke, Acquire, None), (took, A, Fail, Acquire, None)]);
        events[1].error = Some(error.to_owned());
        let found = checker.check(&events).err().unwrap_or_default();
        assert_eq!(found.is_empty(), is_true, "{error} after {took}: {found:?}");
    }
    // A long wait, so that it is not for want of time.
    let mut events = history(&[(0, A, Invoke, Acquire, None), (50, A, Fail, Acquire, None)]);
    events[0].budget_ns = Some(2_000_000_000);
    events[1].error = Some("unavailable: gone".to_owned());
    assert!(known(Excuse::default()).check(&events).is_err());
    assert!(unavailable.check(&events).is_ok());
    // Of which the store had less than it may take, as the machine had the rest.
    events[0].budget_ns = Some(1_000_000_040);
    let of_all: fn(u64, u64) -> u64 = |from_ns, until_ns| until_ns - from_ns;
    let less: fn(u64, u64) -> u64 = |_, _| 40;
    for (stalls, is_true) in [(of_all, true), (less, false)] {
        let checker = stalled(Excuse::default(), Some(stalls));
        assert_eq!(checker.check(&events).is_ok(), is_true);
    }
}

#[test]
fn time_in_which_a_process_did_not_run_is_not_charged() {
    let mut events = history(&[(0, A, Invoke, Acquire, None), (150, A, Fail, Acquire, None)]);
    assert!(strict().check(&events).is_err());
    events[1].stalled_ns = Some(50);
    assert!(strict().check(&events).is_ok());
}

#[test]
fn the_shortest_history_is_what_shows_the_violation_and_no_more() {
    let mut lines: Vec<Line> = Vec::new();
    for (t_ns, token) in (0..400_u64).step_by(4).zip(10..) {
        let c: Line = (t_ns, "c", Invoke, Acquire, None);
        lines.extend([c, (t_ns + 1, "c", Done, Acquire, Some(token))]);
        lines.push((t_ns + 2, "c", Invoke, Release, Some(token)));
        lines.push((t_ns + 3, "c", Done, Release, Some(token)));
    }
    lines.push((1_000, B, Invoke, Acquire, None));
    lines.push((1_001, B, Done, Acquire, Some(5)));
    let events = history(&lines);
    let found = Checker::new().check(&events).unwrap_err();
    let shown = shortest(&Checker::new(), &events, &found[0]);
    let tokens: Vec<_> = shown.iter().filter_map(|event| event.token).collect();
    assert_eq!((shown.len(), tokens), (4, vec![10, 5]), "{shown:#?}");
}
