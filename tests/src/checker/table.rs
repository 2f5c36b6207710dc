//! Histories that must be refused, and their good twins.

use std::time::Duration;

use super::{Checker, UnderFaults, Violation};
use crate::history::{Event, Fun, Kind, Recorder, Share};

/// `(t_ns, process, kind, call, token)` on the key `k`.
pub(super) type Line = (u64, &'static str, Kind, Fun, Option<u64>);

use Fun::{Acquire, Downgrade, Release, Renew, Write};
use Kind::{Fail, Info, Invoke, Ok as Done};

pub(super) fn history(lines: &[Line]) -> Vec<Event> {
    let event = |&(t_ns, process, kind, f, token): &Line| {
        let budget = (kind == Invoke && f == Acquire).then_some(100);
        Event { token, budget_ns: budget, ..Event::new(t_ns, process, kind, f, "k") }
    };
    lines.iter().map(event).collect()
}

pub(super) fn strict() -> Checker {
    Checker::new().exclusive().slack(Duration::ZERO)
}

pub(super) fn verdict(checker: &Checker, lines: &[Line]) -> Vec<Violation> {
    checker.check(&history(lines)).err().unwrap_or_default()
}

pub(super) const A: &str = "a";
pub(super) const B: &str = "b";

const GOOD: &[Line] = &[
    (0, A, Invoke, Acquire, None),
    (1, B, Invoke, Acquire, None),
    (5, A, Done, Acquire, Some(1)),
    (6, A, Invoke, Write, Some(1)),
    (7, A, Done, Write, Some(1)),
    (8, A, Invoke, Release, Some(1)),
    (9, B, Done, Acquire, Some(2)),
    (10, A, Done, Release, Some(1)),
    (11, B, Invoke, Write, Some(2)),
    (12, B, Done, Write, Some(2)),
    (13, B, Invoke, Release, Some(2)),
    (14, B, Done, Release, Some(2)),
];

#[test]
fn a_good_history_is_accepted_in_any_order_of_lines() {
    let report = strict().check(&history(GOOD)).unwrap();
    assert_eq!((report.grants, report.writes_accepted, report.longest_wait_ns), (2, 2, 8));
    let reversed: Vec<Line> = GOOD.iter().rev().copied().collect();
    assert_eq!(verdict(&strict(), &reversed), []);
}

#[test]
fn a_token_granted_twice_is_refused() {
    let mut lines = GOOD.to_vec();
    lines[6].4 = Some(1);
    let found = verdict(&Checker::new(), &lines);
    assert!(matches!(found[0], Violation::TokenTwice { token: 1, .. }), "{found:?}");
}

#[test]
fn a_lower_token_after_a_higher_one_is_refused() {
    let lines = [
        (0, A, Invoke, Acquire, None),
        (1, A, Done, Acquire, Some(9)),
        (2, A, Invoke, Release, Some(9)),
        (3, A, Done, Release, Some(9)),
        (4, B, Invoke, Acquire, None),
        (5, B, Done, Acquire, Some(8)),
    ];
    let key = "k".to_owned();
    assert_eq!(
        verdict(&Checker::new(), &lines),
        [Violation::OutOfOrder { key, first: 9, then: 8 }]
    );
}

#[test]
fn tokens_of_acquires_that_ran_together_may_come_in_either_order() {
    let lines = [
        (0, A, Invoke, Acquire, None),
        (1, B, Invoke, Acquire, None),
        (2, A, Done, Acquire, Some(9)),
        (3, B, Done, Acquire, Some(8)),
    ];
    assert_eq!(verdict(&Checker::new(), &lines), []);
}

#[test]
fn a_lower_token_is_found_behind_others_that_are_in_order() {
    let lines = [
        (0, A, Invoke, Acquire, None),
        (1, A, Done, Acquire, Some(5)),
        (2, A, Invoke, Release, Some(5)),
        (3, A, Done, Release, Some(5)),
        (4, B, Invoke, Acquire, None),
        (5, B, Done, Acquire, Some(2)),
        (6, "c", Invoke, Acquire, None),
        (7, "c", Done, Acquire, Some(3)),
        (8, "d", Invoke, Acquire, None),
        (9, "d", Done, Acquire, Some(6)),
    ];
    let found = verdict(&Checker::new(), &lines);
    assert!(matches!(found[..], [Violation::OutOfOrder { first: 5, .. }]), "{found:?}");
}

#[test]
fn an_accepted_write_of_a_stale_holder_is_refused() {
    let mut lines = GOOD.to_vec();
    lines.push((15, A, Invoke, Write, Some(1)));
    lines.push((16, A, Done, Write, Some(1)));
    let key = "k".to_owned();
    assert_eq!(verdict(&strict(), &lines), [Violation::WriteWentBack { key, first: 2, then: 1 }]);
    for harmless in [Fail, Info] {
        *lines.last_mut().unwrap() = (16, A, harmless, Write, Some(1));
        assert_eq!(verdict(&strict(), &lines), [], "a write that ended as {harmless:?}");
    }
}

#[test]
fn two_writes_with_one_token_are_no_step_back() {
    let lines = [
        (0, A, Invoke, Acquire, None),
        (1, A, Done, Acquire, Some(1)),
        (2, A, Invoke, Write, Some(1)),
        (3, A, Done, Write, Some(1)),
        (4, A, Invoke, Write, Some(1)),
        (5, A, Done, Write, Some(1)),
    ];
    assert_eq!(verdict(&strict(), &lines), []);
}

#[test]
fn a_token_that_nobody_was_granted_is_refused() {
    for call in [Write, Release] {
        for token in [None, Some(77)] {
            let lines = [(0, A, Invoke, call, token), (1, A, Fail, call, token)];
            let (key, process) = ("k".to_owned(), A.to_owned());
            let expected = [Violation::UnknownToken { key, token, process }];
            assert_eq!(verdict(&Checker::new(), &lines), expected);
        }
    }
}

#[test]
fn overlapping_holds_are_refused_only_where_exclusion_is_demanded() {
    let mut lines = GOOD.to_vec();
    lines[5].0 = 10;
    lines[7].0 = 10;
    let key = "k".to_owned();
    assert_eq!(verdict(&strict(), &lines), [Violation::Overlap { key, held: 1, granted: 2 }]);
    assert_eq!(verdict(&Checker::new(), &lines), []);
}

#[test]
fn a_hold_ends_where_its_loss_is_told_or_its_process_was_killed() {
    let without_release: Vec<Line> =
        GOOD.iter().filter(|line| line.1 == B || line.3 != Release).copied().collect();
    let found = verdict(&strict(), &without_release);
    assert!(matches!(found[..], [Violation::Overlap { .. }]), "{found:?}");
    assert_eq!(verdict(&strict().killed(A), &without_release), []);
    let mut told = without_release;
    told.push((8, A, Fail, Renew, Some(1)));
    assert_eq!(verdict(&strict(), &told), []);
}

#[test]
fn an_answer_after_the_budget_is_refused_and_so_is_none_at_all() {
    let late = [(0, A, Invoke, Acquire, None), (101, A, Fail, Acquire, None)];
    let found = verdict(&strict(), &late);
    assert!(matches!(found[..], [Violation::LateAnswer { took_ns: Some(101), .. }]), "{found:?}");
    assert_eq!(verdict(&Checker::new(), &late), [], "20 ms of slack");

    let never = [
        (0, "a/1", Invoke, Acquire, None),
        (200, B, Invoke, Acquire, None),
        (201, B, Fail, Acquire, None),
    ];
    let found = verdict(&strict(), &never);
    assert!(matches!(found[..], [Violation::LateAnswer { took_ns: None, .. }]), "{found:?}");
    assert_eq!(verdict(&strict().killed("a"), &never), [], "a killed process answers no more");
    assert_ne!(verdict(&strict().killed("a/"), &never), [], "names are matched whole");
}

#[test]
fn a_history_that_does_not_pair_up_is_refused() {
    let cases: [&[Line]; 4] = [
        &[(0, A, Done, Acquire, Some(1))],
        &[(0, A, Invoke, Acquire, None), (1, A, Invoke, Acquire, None)],
        &[(0, A, Invoke, Acquire, None), (1, A, Done, Release, Some(1))],
        &[(0, A, Invoke, Acquire, None), (1, A, Done, Acquire, None)],
    ];
    for lines in cases {
        let found = verdict(&Checker::new(), lines);
        assert!(matches!(found[..], [Violation::Malformed { .. }]), "{lines:?}: {found:?}");
    }
}

/// Grants of the key, each shared in some way, from one time to another under a token.
fn shared(holds: &[(u64, u64, u64, Option<Share>)]) -> Vec<Violation> {
    let mut events = Vec::new();
    for (at, (from, until, token, share)) in holds.iter().copied().enumerate() {
        let event = |t_ns, kind, f| Event::new(t_ns, &format!("p{at}"), kind, f, "k");
        let token = Some(token);
        events.push(event(from - 1, Invoke, Acquire));
        events.push(Event { token, share, ..event(from, Done, Acquire) });
        for t_ns in [from, until] {
            events.push(Event { token, ..event(t_ns, Done, Renew) });
        }
        events.push(Event { token, ..event(until, Invoke, Release) });
    }
    let found = strict().check(&events).err().unwrap_or_default();
    // Judged by what holders knew it is the same.
    let known = Checker::new().under_faults(UnderFaults::default()).check(&events);
    let overlaps = |found: &[Violation]| {
        found.iter().filter(|it| matches!(it, Violation::Overlap { .. })).count()
    };
    assert_eq!(overlaps(&found), overlaps(&known.err().unwrap_or_default()), "{found:?}");
    found
}

#[test]
fn who_shares_a_key_is_beside_its_like_and_nobody_else() {
    const READS: Option<Share> = Some(Share::Reader);
    let permit = |slot, of| Some(Share::Permit { slot, of });
    // Beside each other tokens are in no order.
    assert_eq!(shared(&[(10, 20, 2, READS), (15, 25, 1, READS), (30, 40, 3, None)]), []);
    assert_eq!(shared(&[(10, 20, 2, permit(0, 2)), (15, 25, 1, permit(1, 2))]), []);
    let overlap = |found: &[Violation]| matches!(found, [Violation::Overlap { .. }]);
    for (one, other) in [
        (READS, None),
        (None, READS),
        (permit(0, 2), permit(0, 2)),
        (permit(0, 2), permit(2, 2)),
        (permit(0, 2), permit(1, 3)),
        (permit(0, 2), READS),
    ] {
        let found = shared(&[(10, 20, 1, one), (15, 25, 2, other)]);
        assert!(overlap(&found), "{one:?} and {other:?}: {found:?}");
    }
    // Not only beside the one before it.
    let found = shared(&[(10, 40, 1, READS), (15, 20, 2, READS), (30, 50, 3, None)]);
    assert!(overlap(&found), "{found:?}");
    let found = shared(&[(10, 20, 2, READS), (30, 40, 1, None)]);
    assert!(matches!(found[..], [Violation::OutOfOrder { first: 2, then: 1, .. }]), "{found:?}");
    let found = shared(&[(10, 20, 2, None), (30, 40, 1, READS)]);
    assert!(matches!(found[..], [Violation::OutOfOrder { first: 2, then: 1, .. }]), "{found:?}");
}

#[test]
fn a_writer_that_downgraded_is_a_reader_from_then_on() {
    for (at, holds) in [(12, true), (18, false)] {
        let history = Recorder::in_memory();
        let event = |t_ns, process, kind, f, token| Event {
            token,
            ..Event::new(t_ns, process, kind, f, "k")
        };
        history.record(event(1, A, Invoke, Acquire, None));
        history.record(event(2, A, Done, Acquire, Some(1)));
        history.record(event(3, A, Done, Renew, Some(1)));
        history.record(event(at, A, Done, Downgrade, Some(1)));
        history.record(event(14, B, Invoke, Acquire, None));
        let share = Some(Share::Reader);
        history.record(Event { share, ..event(15, B, Done, Acquire, Some(2)) });
        for (t_ns, process, token) in [(16, B, 2), (25, A, 1), (26, B, 2)] {
            history.record(event(t_ns, process, Done, Renew, Some(token)));
        }
        let known = Checker::new().under_faults(UnderFaults::default());
        let found = known.check(&history.events());
        assert_eq!(found.is_ok(), holds, "at {at}: {found:?}");
    }
}
