//! Single moments of an election.

use super::*;
use crate::backend::{Grant, Renewal};
use crate::ground::clock;
use crate::proto::lease::LeaseClock;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const LEASE: Duration = ms(1_000);

fn granted(first: u64, last: u64, valid_for: Duration) -> Result<Attempt, Fault> {
    Ok(Attempt::Granted(Grant::new(TokenBlock::new(first, last), valid_for)))
}

fn blocked(ahead: u32) -> Result<Attempt, Fault> {
    Ok(Attempt::Blocked { ahead: Some(ahead), recheck: ms(500) })
}

fn down(kind: FaultKind) -> Result<Attempt, Fault> {
    Err(Fault::new(kind, "no answer"))
}

/// Members that were asked at one instant, and answered so; `None` has not answered.
fn asked(answers: Vec<Option<Result<Attempt, Fault>>>) -> (Votes, Instant) {
    let now = clock::now();
    let mut votes = Votes::new(answers.len());
    votes.begin();
    for member in votes.to_ask(now) {
        votes.sent(member, now);
    }
    for (member, answer) in answers.into_iter().enumerate() {
        if let Some(answer) = answer {
            votes.attempted(member, answer, now, |_| ms(50));
        }
    }
    (votes, now)
}

#[test]
fn a_majority_that_counts_alike_is_granted_without_another_request() {
    let grant = || Some(granted(5, 9, LEASE));
    for answers in [vec![grant(), grant(), None], vec![grant(), grant(), Some(blocked(1))]] {
        let (mut votes, now) = asked(answers);
        let tokens = TokenBlock::new(5, 9);
        let expected =
            Ruling::Granted { tokens, until: now + LEASE, wanted: false, handed_on: false };
        assert_eq!(votes.attempt(now, now), expected);
    }
}

#[test]
fn members_that_have_counted_less_are_raised_first_and_the_tokens_begin_above_all() {
    let grant = |first, last| Some(granted(first, last, LEASE));
    let (mut votes, now) = asked(vec![grant(1, 4), grant(7, 9), grant(2, 9)]);
    // The second and the third are a majority that has reached 9.
    assert!(matches!(votes.attempt(now, now), Ruling::Granted { tokens, .. }
        if tokens == TokenBlock::new(7, 9)));
    let (mut votes, now) = asked(vec![grant(1, 4), grant(7, 9), None]);
    assert_eq!(votes.attempt(now, now), Ruling::Raise { members: vec![0], to: 9 });
    votes.sent(0, now);
    assert_eq!(votes.attempt(now, now), Ruling::Raise { members: vec![], to: 9 }, "told once");
    votes.raised(0, 9, Ok(true), now, |_| ms(50));
    assert!(matches!(votes.attempt(now, now), Ruling::Granted { tokens, .. }
        if tokens == TokenBlock::new(7, 9)));
}

#[test]
fn a_member_that_refuses_to_be_raised_is_none_of_the_majority() {
    let grant = |first, last| Some(granted(first, last, LEASE));
    let (mut votes, now) = asked(vec![grant(1, 4), grant(7, 9), Some(blocked(1))]);
    votes.sent(0, now);
    votes.raised(0, 9, Ok(false), now, |_| ms(50));
    assert!(matches!(votes.attempt(now, now), Ruling::Blocked { .. }));
    assert_eq!(votes.to_leave(), [0, 1, 2], "it may hold the key by another grant");
}

#[test]
fn a_hold_is_good_for_as_long_as_a_majority_holds() {
    let grant = |valid| Some(granted(5, 9, ms(valid)));
    let (mut votes, now) = asked(vec![grant(300), grant(200), grant(100)]);
    assert!(matches!(votes.attempt(now, now), Ruling::Granted { until, .. }
        if until == now + ms(200)));
    assert_eq!((votes.held(now + ms(150)), votes.held(now + ms(250))), (2, 1));
}

/// A claim keeps what members granted to an earlier attempt. Its clock starts later, and the store's run on.
#[test]
fn a_hold_by_earlier_grants_has_the_margin_of_their_whole_lease() {
    let grant = || Some(granted(5, 9, LEASE));
    let (mut votes, sent) = asked(vec![grant(), grant(), None]);
    for since in [0, 10, 500, 900, 980, 995] {
        let began = sent + ms(since);
        let Ruling::Granted { until, .. } = votes.attempt(began, began) else {
            panic!("a majority holds")
        };
        let clock = LeaseClock::start(began, until.saturating_duration_since(began));
        let held = clock.valid_until() - began;
        let is_safe = held.is_zero() || (ms(since) + held) * 100 / 99 <= LEASE;
        assert!(is_safe, "{held:?} after {since} ms");
    }
}

#[test]
fn one_that_is_told_to_forget_the_claim_holds_nothing_for_it() {
    let grant = || Some(granted(5, 9, LEASE));
    let (mut votes, now) = asked(vec![grant(), grant(), Some(blocked(1))]);
    votes.leaves(0);
    assert_eq!(votes.held(now), 1);
    assert!(matches!(votes.attempt(now, now), Ruling::Blocked { .. }));
    assert!(!votes.to_ask(now).contains(&0), "nothing is asked of it until it has");
    votes.left(0);
    assert!(votes.to_ask(now).contains(&0));
    assert_eq!(votes.outside(), [0]);
}

#[test]
fn those_who_are_late_are_waited_for_as_long_again_as_a_majority_took() {
    let (mut votes, began) = asked(vec![Some(blocked(1)), Some(granted(5, 9, LEASE)), None]);
    let spoken = began + ms(20);
    assert_eq!(votes.attempt(began, spoken), Ruling::Wait(Some(began + ms(40))));
    assert!(matches!(votes.attempt(began, began + ms(40)), Ruling::Blocked { .. }));
    let (mut votes, began) = asked(vec![Some(blocked(1)), None, None]);
    assert_eq!(votes.attempt(began, began + ms(900)), Ruling::Wait(None), "no majority yet");
}

#[test]
fn each_attempt_has_a_grace_of_its_own() {
    let (mut votes, began) = asked(vec![Some(blocked(1)), Some(granted(5, 9, LEASE)), None]);
    assert_eq!(votes.attempt(began, began + ms(20)), Ruling::Wait(Some(began + ms(40))));
    let again = began + ms(100);
    votes.begin();
    votes.sent(0, again);
    votes.attempted(0, blocked(1), again, |_| ms(50));
    assert_eq!(votes.attempt(again, again + ms(30)), Ruling::Wait(Some(again + ms(60))));
}

#[test]
fn a_majority_is_more_than_half() {
    for (members, majority) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
        assert_eq!(Votes::new(members).majority(), majority, "of {members}");
    }
}

#[test]
fn those_are_asked_that_may_have_changed_their_mind() {
    let answers = [granted(5, 9, LEASE), blocked(1), down(FaultKind::Transient), blocked(2)];
    let (mut votes, now) = asked(answers.into_iter().map(Some).chain([None]).collect());
    votes.left(3);
    assert_eq!(votes.outside(), [3]);
    assert_eq!(votes.not_down().collect::<Vec<_>>(), [0, 1, 3, 4]);
    let at = |votes: &Votes, at| votes.to_ask(now + ms(at));
    // Nobody pushed. One that is down has its pause, one that granted its lease.
    assert_eq!([at(&votes, 0), at(&votes, 49)], [[1, 3], [1, 3]]);
    assert_eq!([at(&votes, 50), at(&votes, 999)], [[1, 2, 3], [1, 2, 3]]);
    assert_eq!(at(&votes, 1_000), [0, 1, 2, 3]);
    // One that is down pushed: the others in line are left until their time has come.
    votes.heard(2);
    assert_eq!([at(&votes, 0), at(&votes, 499)], [[2, 3], [2, 3]]);
    assert_eq!(at(&votes, 500), [1, 2, 3]);
    votes.heard(1);
    assert_eq!(at(&votes, 0), [1, 2, 3]);
    // Nothing is asked of one that is asked, or leaves.
    votes.leaves(1);
    votes.sent(3, now);
    assert_eq!(at(&votes, 0), [2]);
    assert!(votes.outside().is_empty());
}

#[test]
fn a_claim_leaves_where_something_of_it_may_be() {
    let answers = [granted(5, 9, LEASE), blocked(1), down(FaultKind::Transient), blocked(2)];
    let (mut votes, _) = asked(answers.into_iter().map(Some).chain([None]).collect());
    votes.left(3);
    assert_eq!((votes.to_leave(), votes.gone()), (vec![0, 1, 2, 4], 2));
    assert_eq!((votes.prompt(), votes.is_leaving()), (vec![0, 1], false));
    for member in [1, 4] {
        votes.leaves(member);
        assert!(votes.leaves_still(member) && votes.is_leaving());
    }
    assert_eq!((votes.to_leave(), votes.gone(), votes.prompt()), (vec![0, 2], 1, vec![0]));
    assert!(!votes.leaves_still(0));
    votes.left(1);
    assert!(!votes.leaves_still(1) && votes.is_leaving());
    votes.left(4);
    assert_eq!((votes.is_leaving(), votes.gone()), (false, 3));
}

#[test]
fn a_renewal_leaves_the_tokens_of_the_grant_as_they_are() {
    let grant = |first, last| Some(granted(first, last, LEASE));
    let (mut votes, now) = asked(vec![grant(5, 9), grant(5, 9), grant(5, 9)]);
    let later = now + ms(300);
    for member in votes.renewal_begins() {
        votes.sent(member, later);
        let Ok(Attempt::Granted(more)) = granted(10, 19, LEASE) else { unreachable!() };
        votes.renewed(member, Ok(Renewal::Held(more)));
    }
    let until = later + LEASE;
    assert_eq!(votes.renewal(later), Renewed::Held { until, wanted: false });
    assert!(matches!(votes.attempt(later, later), Ruling::Granted { tokens, .. }
        if tokens == TokenBlock::new(5, 9)));
}

#[test]
fn a_minority_is_given_back_when_it_was_kept_in_vain() {
    let (mut votes, now) =
        asked(vec![Some(granted(5, 9, LEASE)), Some(blocked(1)), Some(blocked(2))]);
    assert!(matches!(votes.attempt(now, now), Ruling::Blocked { ahead: Some(2), .. }));
    assert_eq!(votes.give_back(now + ms(10), ms(20)), [0_usize; 0]);
    assert_eq!(votes.minority_left(now + ms(10), ms(20)), Some(ms(10)));
    assert_eq!(votes.give_back(now + ms(20), ms(20)), [0]);
}

#[test]
fn too_few_that_answer_is_a_fault_that_passes_unless_most_refuse() {
    let transient = || Some(down(FaultKind::Transient));
    let refused = || Some(down(FaultKind::Refused));
    for (answers, kind) in [
        (vec![transient(), transient(), Some(blocked(1))], FaultKind::Transient),
        (vec![refused(), transient(), Some(blocked(1))], FaultKind::Transient),
        (vec![refused(), refused(), Some(blocked(1))], FaultKind::Refused),
    ] {
        let (mut votes, now) = asked(answers);
        assert_eq!(votes.attempt(now, now), Ruling::Down);
        assert_eq!(votes.why_down().kind(), kind);
    }
}

/// One that is merely late is counted among those that do not answer.
#[test]
fn a_fault_says_how_many_did_not_answer() {
    let (votes, _) = asked(vec![None, None, Some(blocked(1))]);
    let said = votes.why_down().to_string();
    assert!(said.contains("2 of the 3 members of the quorum do not answer"), "{said}");
}

#[test]
fn a_renewal_needs_a_majority_that_answers_and_is_lost_with_a_majority_that_does_not_hold() {
    let held = |valid_for| {
        let grant = Grant::new(TokenBlock::empty(), valid_for);
        Ok(Renewal::Held(Grant { wanted: true, ..grant }))
    };
    let grant = || Some(granted(5, 9, LEASE));
    let renewing = || {
        let (mut votes, now) = asked(vec![grant(), grant(), grant()]);
        for member in votes.renewal_begins() {
            votes.sent(member, now + ms(300));
        }
        (votes, now)
    };
    let (mut votes, now) = renewing();
    votes.renewed(0, held(LEASE));
    assert_eq!(votes.renewal(now + ms(310)), Renewed::Wait);
    votes.renewed(1, held(LEASE));
    let until = now + ms(1_300);
    assert_eq!(votes.renewal(now + ms(310)), Renewed::Held { until, wanted: true });

    let (mut votes, now) = renewing();
    votes.renewed(0, Ok(Renewal::Lost));
    assert_eq!(votes.renewal(now + ms(310)), Renewed::Wait);
    votes.renewed(1, Ok(Renewal::Lost));
    assert_eq!(votes.renewal(now + ms(310)), Renewed::Lost);

    let (mut votes, now) = renewing();
    let fault = || Err(Fault::new(FaultKind::Transient, "no answer"));
    (0..3).for_each(|member| votes.renewed(member, fault()));
    assert_eq!(votes.renewal(now + ms(310)), Renewed::Unknown, "held until its time is over");
    assert_eq!(votes.renewal(now + ms(1_000)), Renewed::Lost);
}

#[test]
fn a_member_that_is_down_or_was_not_asked_does_not_end_the_wait_for_the_others() {
    let first = || Some(granted(5, 9, LEASE));
    for silent in [Some(down(FaultKind::Transient)), Some(down(FaultKind::Unready))] {
        let (mut votes, began) = asked(vec![first(), None, silent]);
        let later = began + ms(500);
        assert_eq!(votes.attempt(began, later), Ruling::Wait(None), "the second may grant it");
        votes.attempted(1, granted(5, 9, LEASE), later, |_| ms(50));
        assert!(matches!(votes.attempt(began, later), Ruling::Granted { .. }));
    }
    let began = clock::now();
    let mut votes = Votes::new(3);
    votes.begin();
    (0..2).for_each(|member| votes.sent(member, began));
    votes.attempted(0, blocked(1), began, |_| ms(50));
    assert_eq!(votes.attempt(began, began + ms(500)), Ruling::Wait(None), "the third hangs");
}

/// A hold of the first two members; the third grants the key when it is asked by a renewal.
fn joined_by_the_third() -> (Votes, Instant) {
    let (mut votes, now) =
        asked(vec![Some(granted(5, 9, LEASE)), Some(granted(5, 9, LEASE)), Some(blocked(1))]);
    assert!(matches!(votes.attempt(now, now), Ruling::Granted { .. }));
    renewed(&mut votes, now, &[(0, true)]);
    votes.sent(2, now);
    votes.attempted(2, granted(20, 29, LEASE), now, |_| ms(50));
    (votes, now)
}

/// A renewal, which these members answer.
fn renewed(votes: &mut Votes, now: Instant, answers: &[(usize, bool)]) {
    for member in votes.renewal_begins() {
        votes.sent(member, now);
    }
    for &(member, held) in answers {
        let grant = Grant::new(TokenBlock::empty(), LEASE);
        votes.renewed(member, Ok(if held { Renewal::Held(grant) } else { Renewal::Lost }));
    }
}

#[test]
fn a_member_that_grants_the_key_during_a_renewal_does_not_replace_one_that_lost_it() {
    let (mut votes, now) = joined_by_the_third();
    // Somebody may have held it at the second and the third meanwhile.
    votes.renewed(1, Ok(Renewal::Lost));
    assert_eq!(votes.renewal(now), Renewed::Lost);
}

#[test]
fn a_member_that_joined_counts_once_those_before_it_were_renewed() {
    let (mut votes, now) = joined_by_the_third();
    votes.renewed(1, Err(Fault::new(FaultKind::Transient, "no answer")));
    assert_eq!(votes.renewal(now), Renewed::Unknown);
    renewed(&mut votes, now, &[(0, true), (1, true), (2, true)]);
    assert!(matches!(votes.renewal(now), Renewed::Held { .. }));
    renewed(&mut votes, now, &[(0, true), (1, false), (2, true)]);
    assert!(matches!(votes.renewal(now), Renewed::Held { .. }), "the third replaces the second");
}

/// The third was asked with the others. Somebody else may have held the key at it and at the second
/// before it answered.
#[test]
fn a_member_that_answers_the_attempt_late_does_not_replace_one_that_lost_the_key() {
    let grant = || Some(granted(5, 9, LEASE));
    let (mut votes, now) = asked(vec![grant(), grant(), None]);
    assert!(matches!(votes.attempt(now, now), Ruling::Granted { .. }));
    votes.attempted(2, granted(20, 29, LEASE), now, |_| ms(50));
    renewed(&mut votes, now, &[(0, true), (1, false), (2, true)]);
    assert_eq!(votes.renewal(now), Renewed::Lost);
}
