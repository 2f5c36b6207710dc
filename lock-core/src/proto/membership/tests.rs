//! Single moments of a membership, and that a minimum token is above all that a majority had
//! reserved.

use proptest::prelude::*;

use super::*;
use crate::ground::clock;

const LEASE_MAX: Duration = Duration::from_secs(30);
/// The stores' clock.
const NOW: Duration = Duration::from_secs(1_700_000_000);
const OLD: Duration = Duration::from_secs(3_600);

fn identity(members: u32) -> Identity {
    Identity { quorum: "q".into(), members, lease_max: LEASE_MAX }
}

fn vacant(up_for: Duration) -> Probe {
    Probe { enrolment: None, incarnation: "now".into(), now: NOW, up_for, highest: 0 }
}

/// A member that may grant, and has reserved tokens up to `highest`.
fn good(members: u32, highest: u64) -> Probe {
    let Identity { quorum, members, lease_max } = identity(members);
    let (nonce, incarnation, ready_at) = (7, "now".to_owned(), NOW - OLD);
    let it =
        Enrolment { quorum, members, lease_max, nonce, incarnation, ready_at, token_min: Some(0) };
    Probe { enrolment: Some(it), highest, ..vacant(OLD) }
}

fn with(mut probe: Probe, change: impl FnOnce(&mut Enrolment)) -> Probe {
    if let Some(enrolment) = &mut probe.enrolment {
        change(enrolment);
    }
    probe
}

/// Past its quarantine, without a minimum token.
fn unrepaired(members: u32, highest: u64) -> Probe {
    with(good(members, highest), |it| it.token_min = None)
}

/// Longer than a quarantine.
const LONG: Duration = Duration::from_secs(60);

/// All were probed now, and known for long; `None` did not answer.
fn membership(probes: Vec<Option<Probe>>) -> (Membership, Instant) {
    let (mut membership, now) =
        (Membership::new(identity(probes.len() as u32)), clock::now() + LONG);
    for (member, probe) in probes.into_iter().enumerate() {
        match probe {
            Some(probe) => {
                membership.saw(member, now - LONG, now - LONG, probe.clone());
                membership.saw(member, now, now, probe);
            }
            None => membership.missed(member),
        }
    }
    (membership, now)
}

fn acts(membership: &Membership, now: Instant) -> Vec<(usize, Enrol)> {
    membership.plan(now).acts.into_iter().map(|act| (act.member, act.what)).collect()
}

fn quarantine() -> Enrol {
    Enrol::Quarantine { ready_at: NOW + identity(3).quarantine() }
}

#[test]
fn new_stores_grant_once_every_lease_is_over_that_an_earlier_incarnation_may_have_granted() {
    for (up_for, left) in [(OLD, 0), (Duration::from_secs(20), 10_302), (Duration::ZERO, 30_302)] {
        let (membership, now) = membership(vec![Some(vacant(up_for)); 3]);
        let found = Enrol::Found { ready_at: NOW + Duration::from_millis(left) };
        assert_eq!(acts(&membership, now), [(0, found), (1, found), (2, found)]);
    }
}

#[test]
fn a_founding_that_stopped_half_way_is_ended_by_another_client() {
    let founded = with(good(3, 0), |it| it.ready_at = NOW - Duration::from_secs(1));
    let (membership, now) = membership(vec![Some(founded), Some(vacant(OLD)), Some(vacant(OLD))]);
    let found = Enrol::Found { ready_at: NOW };
    assert_eq!(acts(&membership, now), [(1, found), (2, found)]);
}

#[test]
fn a_store_without_an_enrolment_is_not_new_where_anything_was_granted_or_could_have_been() {
    let long_ago = good(3, 0);
    let granted = with(good(3, 5), |it| it.ready_at = NOW);
    let repaired = with(good(3, 0), |it| (it.ready_at, it.token_min) = (NOW, Some(5)));
    let at_the_end = with(good(3, 0), |it| it.ready_at = NOW - FOUNDING_WITHIN);
    for other in [long_ago, at_the_end, granted, repaired] {
        let (membership, now) =
            membership(vec![Some(vacant(OLD)), Some(other.clone()), Some(vacant(OLD))]);
        assert_eq!(acts(&membership, now), [(0, quarantine()), (2, quarantine())], "{other:?}");
    }
    // Deleted by hand at all of them.
    let deleted = Probe { highest: 5, ..vacant(OLD) };
    let (membership, now) = membership(vec![Some(deleted), Some(vacant(OLD)), Some(vacant(OLD))]);
    assert_eq!(acts(&membership, now).len(), 3);
    assert!(acts(&membership, now).iter().all(|(_, what)| *what == quarantine()));
}

#[test]
fn what_was_seen_to_have_an_enrolment_is_not_new_without_it() {
    let (mut membership, now) = membership(vec![Some(good(3, 0)); 3]);
    for member in 0..3 {
        membership.saw(member, now, now, vacant(OLD));
    }
    assert!(acts(&membership, now).iter().all(|(_, what)| *what == quarantine()));
}

#[test]
fn nobody_is_enrolled_while_it_is_not_known_whose_the_members_are() {
    let (roll_, now) = membership(vec![Some(vacant(OLD)), Some(good(3, 5)), None]);
    assert_eq!(acts(&roll_, now), []);
    assert!(roll_.is_stuck(0) && roll_.plan(now).probes == [2]);
    // A majority is enough.
    let (roll_, now) =
        membership(vec![Some(vacant(OLD)), Some(good(5, 5)), Some(good(5, 5)), None, None]);
    assert_eq!(acts(&roll_, now), []);
    let good = || Some(good(5, 5));
    let (membership, now) = membership(vec![Some(vacant(OLD)), good(), good(), good(), None]);
    assert_eq!(acts(&membership, now), [(0, quarantine())]);
}

#[test]
fn a_member_of_another_incarnation_is_kept_away_for_the_longest_lease() {
    let lost = with(good(3, 5), |it| it.incarnation = "before".into());
    let (membership, now) = membership(vec![Some(lost), Some(good(3, 5)), Some(good(3, 5))]);
    assert_eq!(acts(&membership, now), [(0, quarantine())]);
    let early = with(good(3, 5), |it| it.ready_at = NOW + Duration::from_secs(9));
    let (membership, now) = self::membership(vec![Some(early), Some(good(3, 5)), Some(good(3, 5))]);
    let next = Some(now + Duration::from_secs(9));
    assert_eq!(membership.plan(now), Plan { next, ..Plan::default() });
    assert_eq!(membership.plan(now + Duration::from_secs(9)).probes, [0], "its time has come");
}

#[test]
fn what_is_too_long_ago_is_looked_at_again_before_anything_is_written() {
    let (membership, now) = membership(vec![Some(vacant(OLD)); 3]);
    let later = membership.plan(now + SEEN_WITHIN);
    assert_eq!((later.acts, later.probes), (vec![], vec![0, 1, 2]));
    let joins = vec![Some(vacant(OLD)), Some(good(3, 5)), Some(good(3, 5))];
    for (probes, acts) in [(joins, 1), (vec![Some(unrepaired(3, 5)); 3], 3)] {
        let (membership, now) = self::membership(probes);
        assert_eq!(membership.plan(now).acts.len(), acts);
        let later = membership.plan(now + SEEN_WITHIN);
        assert_eq!((later.acts, later.probes), (vec![], vec![0, 1, 2]));
    }
}

#[test]
fn what_may_have_changed_is_looked_at_again_and_is_no_failure() {
    let (mut membership, now) = membership(vec![Some(vacant(OLD)), Some(good(3, 5)), None]);
    membership.saw(2, now, now, good(3, 5));
    membership.unsee(1);
    assert_eq!((membership.standing(1), membership.is_stuck(0)), (None, false));
    assert_eq!(membership.plan(now).probes, [1]);
}

#[test]
fn a_member_is_stuck_while_only_others_can_help_it() {
    let early = || Some(with(good(3, 0), |it| it.ready_at = NOW + LEASE_MAX));
    let (well, past) = (|| Some(good(3, 5)), || Some(unrepaired(3, 5)));
    let cases = [
        (well(), well(), None, false),
        (Some(vacant(OLD)), well(), well(), false),
        (Some(vacant(OLD)), well(), None, true),
        (early(), well(), None, false),
        // All can begin again; one cannot yet; one does not say.
        (past(), past(), past(), false),
        (past(), past(), early(), true),
        (past(), past(), None, true),
    ];
    for (case, (first, second, third, is_stuck)) in cases.into_iter().enumerate() {
        let membership = membership(vec![first, second, third]).0;
        assert_eq!(membership.is_stuck(0), is_stuck, "case {case}");
    }
    // The others are to be read first.
    let (mut membership, now) = membership(vec![past(), well(), well()]);
    membership.unsee(0);
    membership.saw(0, now, now + SEEN_WITHIN / 2, unrepaired(3, 5));
    assert!(!membership.is_stuck(0) && membership.plan(now).acts.is_empty());
}

#[test]
fn a_minimum_token_is_read_from_a_majority_of_the_others_after_the_quarantine() {
    let (mut membership, now) = membership(vec![Some(good(3, 5)), Some(good(3, 8)), None]);
    let heard = now + Duration::from_millis(3);
    membership.saw(2, now - LONG, now - LONG, unrepaired(3, 9));
    membership.missed(2);
    membership.saw(2, now, heard, unrepaired(3, 9));
    assert_eq!(membership.plan(heard), Plan { probes: vec![0, 1], ..Plan::default() });
    membership.saw(0, heard, heard, good(3, 5));
    assert_eq!(membership.plan(heard).probes, [1]);
    membership.saw(1, heard, heard, with(good(3, 6), |it| it.token_min = Some(8)));
    let repair = Enrol::Repair { token_min: 8, on_clocks: false };
    assert_eq!(
        acts(&membership, heard),
        [(2, repair)],
        "the token_min of another counts, its own do not"
    );
    let later = heard + Duration::from_millis(3);
    membership.saw(2, later, later, unrepaired(3, 9));
    assert_eq!(acts(&membership, later), [(2, repair)], "what was read since then counts");
}

#[test]
fn what_was_read_before_a_second_loss_is_void() {
    let (mut membership, now) =
        membership(vec![Some(good(3, 5)), Some(good(3, 8)), Some(unrepaired(3, 0))]);
    let at = |ms| now + Duration::from_millis(ms);
    let again = || with(unrepaired(3, 0), |it| it.nonce = 8);
    membership.saw(2, at(1), at(2), again());
    let left = identity(3).quarantine();
    assert_eq!(membership.standing(2), Some(Standing::Early { left }));
    assert_eq!(acts(&membership, at(2)), []);
    let over = at(2) + identity(3).quarantine();
    membership.saw(2, over, over, again());
    assert_eq!(membership.plan(over), Plan { probes: vec![0, 1], ..Plan::default() });
}

/// The clock of a machine is often set anew when it comes up.
#[test]
fn a_clock_that_is_set_forward_does_not_end_a_quarantine() {
    let (mut membership, now) = membership(vec![Some(good(3, 5)), Some(good(3, 8)), None]);
    membership.saw(2, now, now, unrepaired(3, 0));
    let left = identity(3).quarantine();
    assert_eq!(membership.standing(2), Some(Standing::Early { left }));
    let plan = Plan { next: Some(now + KEPT_AWAY_PROBES), ..Plan::default() };
    assert_eq!(membership.plan(now), plan, "probed now and then");
    let soon = now + left - Duration::from_millis(1);
    membership.saw(2, soon, soon, unrepaired(3, 0));
    assert_eq!((acts(&membership, soon), membership.plan(soon).probes), (vec![], vec![]));
}

#[test]
fn a_clock_that_was_set_back_does_not_make_a_quarantine_longer() {
    let set_back = with(good(3, 5), |it| it.ready_at = NOW + OLD);
    let (membership, now) = membership(vec![Some(set_back), Some(good(3, 5)), Some(good(3, 5))]);
    assert_eq!(acts(&membership, now), [(0, quarantine())]);
}

#[test]
fn two_members_with_one_enrolment_are_one_server() {
    let other = |nonce| Some(with(good(3, 5), |it| it.nonce = nonce));
    assert_eq!(membership(vec![other(1), other(2), other(3)]).0.twins(), None);
    assert_eq!(membership(vec![other(1), other(2), other(1)]).0.twins(), Some((0, 2)));
    assert_eq!(membership(vec![Some(vacant(OLD)); 3]).0.twins(), None);
}

#[test]
fn two_of_three_begin_again_when_all_answer_and_are_past_their_quarantine() {
    let two = || (Some(unrepaired(3, 3)), Some(unrepaired(3, 4)));
    let at = |answers: (Option<Probe>, Option<Probe>), third| {
        let (membership, now) = membership(vec![answers.0, answers.1, third]);
        acts(&membership, now)
    };
    assert_eq!(at(two(), None), []);
    let early = with(unrepaired(3, 9), |it| it.ready_at = NOW + LEASE_MAX);
    assert_eq!(at(two(), Some(early)), []);
    let repair = Enrol::Repair { token_min: 9, on_clocks: true };
    assert_eq!(at(two(), Some(good(3, 9))), [(0, repair), (1, repair)]);
    let all = Some(unrepaired(3, 9));
    assert_eq!(at(two(), all), [(0, repair), (1, repair), (2, repair)]);
}

#[test]
fn another_list_size_or_longest_lease_is_foreign() {
    let changes: [fn(&mut Enrolment); 3] = [
        |it| it.quorum = "r".into(),
        |it| it.members = 5,
        |it| it.lease_max = Duration::from_secs(31),
    ];
    for change in changes {
        let probe = with(good(3, 5), change);
        assert_eq!(identity(3).standing(&probe), Standing::Foreign);
    }
    assert_eq!(identity(3).standing(&good(3, 5)), Standing::Good);
}

proptest! {
    /// A majority had reserved `token`, the lost member among it or not.
    #[test]
    fn a_minimum_token_is_above_every_token_that_a_majority_had(
        members in 3_usize..=9,
        token in 1_u64..1_000,
        seed: [u16; 9],
    ) {
        let mut order: Vec<_> = (0..members).collect();
        order.sort_by_key(|&member| seed[member] >> 3);
        let had = &order[..=members / 2];
        let probes = (0..members).map(|member| match (member, seed[member] % 4) {
            (0, _) => Some(unrepaired(members as u32, 0)),
            (_, 0) => None,
            (member, _) => Some(good(members as u32, if had.contains(&member) { token } else { 0 })),
        });
        let probes: Vec<_> = probes.collect();
        let answer = probes.iter().flatten().count();
        let (membership, now) = membership(probes);
        match acts(&membership, now)[..] {
            [(0, Enrol::Repair { token_min, on_clocks: false })] => prop_assert!(token_min >= token),
            [] => prop_assert!(answer - 1 <= members / 2, "enough others answered"),
            ref other => prop_assert!(false, "{:?}", other),
        }
    }
}
