//! The leader, and those who follow. Where [`Capabilities::election`](crate::backend::Capabilities)
//! does not hold, following is refused and nothing else is checked.

use super::drive::{Case, Process, Watcher, is_lost};
use crate::backend::{Claim, FaultKind, Grant, Mode, Renewal};
use crate::test_util::scripted::{Act, Verb};
use crate::test_util::subject::Subject;
use crate::view::Leader;

/// A process, if there is something to check; if not, following must be refused.
async fn elects(case: &Case<'_>) -> Option<Process> {
    let process = case.process().await;
    if !process.capabilities().election {
        match process.follower("a follower").follower.leader().await {
            Err(fault) if fault.kind() == FaultKind::Refused => return None,
            answer => panic!("elections are not promised, yet following gave {answer:?}"),
        }
    }
    // An election has one mode, whatever that of the other properties.
    (case.subject.mode() == Mode::Exclusive).then_some(process)
}

/// The follower is told of this one, and under which token it leads.
async fn follows(follower: &mut Watcher, case: &Case<'_>, value: &str, grant: Grant) {
    let leader = follower.is_led_by(Some(value), case.soon()).await;
    if let Some(Leader { token: Some(token), .. }) = leader {
        assert_eq!(Some(token.get()), grant.tokens.first(), "{value}");
    }
}

/// By a push where that is promised, in every process. A candidate that waits is not shown.
pub async fn those_who_follow_are_told_who_leads_and_who_comes_next(subject: &dyn Subject) {
    let case = Case::new(subject, "election");
    let (Some(one), two, three) = (elects(&case).await, case.process().await, case.process().await)
    else {
        return;
    };
    let (mut near, mut far) = (one.follower("the near"), three.follower("the far"));
    for follower in [&mut near, &mut far] {
        assert_eq!(follower.follows().await.leader, None);
    }
    let (mut first, mut next) = (one.candidate("first: 10.0.0.1 ü"), two.candidate("next"));
    let led = first.takes().await;
    for follower in [&mut near, &mut far] {
        if one.capabilities().push {
            follower.is_told(case.soon(), "a follower was not told of the first leader").await;
        }
        follows(follower, &case, "first: 10.0.0.1 ü", led).await;
    }
    next.is_blocked().await;
    first.renews().await;
    follows(&mut far, &case, "first: 10.0.0.1 ü", led).await;
    first.releases().await;
    let led = next.is_granted(case.soon()).await;
    if one.capabilities().push {
        far.is_told(case.soon(), "a follower was not told of the next leader").await;
    }
    for follower in [&mut near, &mut far] {
        follows(follower, &case, "next", led).await;
    }
    next.releases().await;
    for follower in [&mut near, &mut far] {
        if one.capabilities().push {
            follower.is_told(case.soon(), "a follower was not told of the end").await;
        }
        follower.is_led_by(None, case.soon()).await;
        follower.leaves().await;
    }
    case.is_free(&one).await;
}

/// It is so with another candidate behind it and without.
pub async fn a_leader_that_died_is_no_leader_at_its_lease_end(subject: &dyn Subject) {
    for has_next in [false, true] {
        let case = Case::new(subject, "dead leader");
        let (Some(one), two) = (elects(&case).await, case.process().await) else { return };
        let mut follower = one.follower("the follower");
        let mut leader = two.candidate_for(case.lease(), "the dead");
        let led = leader.takes().await;
        follows(&mut follower, &case, "the dead", led).await;
        drop(leader);
        two.dies(subject);
        if has_next {
            let mut next = one.candidate("the next");
            let led = next.is_granted(case.a_lease_later()).await;
            follows(&mut follower, &case, "the next", led).await;
            next.releases().await;
        }
        follower.is_led_by(None, case.a_lease_later()).await;
        follower.leaves().await;
        case.is_free(&one).await;
    }
}

/// Whoever locks the key keeps candidates from leading, and is shown to nobody.
pub async fn a_holder_that_stood_for_nothing_leads_nothing(subject: &dyn Subject) {
    let case = Case::new(subject, "no election");
    let (Some(one), two) = (elects(&case).await, case.process().await) else { return };
    let mut follower = two.follower("the follower");
    let (mut holder, mut candidate) = (one.claim("the holder"), two.candidate("the candidate"));
    holder.takes().await;
    assert_eq!(follower.follows().await.leader, None);
    candidate.is_blocked().await;
    assert_eq!(follower.follows().await.leader, None);
    holder.releases().await;
    let led = candidate.is_granted(case.soon()).await;
    follows(&mut follower, &case, "the candidate", led).await;
    candidate.releases().await;
    follower.leaves().await;
    case.is_free(&one).await;
}

/// The token that is shown is the one that the leader was told.
pub async fn a_term_whose_begin_was_not_told_is_shown_once_it_is_known(subject: &dyn Subject) {
    let case = Case::new(subject, "lost begin");
    let Some(one) = elects(&case).await else { return };
    let mut follower = one.follower("the follower");
    let (process, script) = case.process().await.scripted();
    let mut candidate = process.candidate("the unlucky");
    script.next(Verb::Attempt, Act::Lost);
    is_lost(candidate.claim.attempt().await);
    let led = candidate.takes().await;
    follows(&mut follower, &case, "the unlucky", led).await;
    candidate.releases().await;
    follower.is_led_by(None, case.soon()).await;
    follower.leaves().await;
    case.is_free(&one).await;
}

/// Its next renewal is lost, and tells nobody otherwise.
pub async fn a_leader_whose_key_was_taken_is_not_shown_any_more(subject: &dyn Subject) {
    let case = Case::new(subject, "taken term");
    let (Some(one), two) = (elects(&case).await, case.process().await) else { return };
    if !one.capabilities().force_release {
        return;
    }
    let mut follower = two.follower("the follower");
    let mut leader = one.candidate("the old");
    let led = leader.takes().await;
    follows(&mut follower, &case, "the old", led).await;
    two.forces().await;
    follower.is_led_by(None, case.soon()).await;
    assert_eq!(leader.renewal().await, Renewal::Lost);
    assert_eq!(follower.follows().await.leader, None);
    let mut next = two.candidate("the next");
    let led = next.takes().await;
    follows(&mut follower, &case, "the next", led).await;
    leader.leaves().await;
    follows(&mut follower, &case, "the next", led).await;
    next.releases().await;
    follower.leaves().await;
    case.is_free(&one).await;
}
