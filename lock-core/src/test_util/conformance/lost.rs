//! Replies that never came: the request took effect, and the claim does not know.

use super::drive::{Asker, Case, Process, is_lost};
use crate::backend::{Attempt, Claim, Renewal};
use crate::test_util::scripted::{Act, Reply, Script, Verb};
use crate::test_util::subject::Subject;

/// A claim whose replies the script can lose.
pub(super) async fn lossy(case: &Case<'_>) -> (Asker, Script) {
    let (process, script) = case.process().await.scripted();
    (process.claim("the unlucky"), script)
}

/// The same claim is found again by its id: it holds the key once, under the same tokens or later
/// ones.
pub async fn an_attempt_whose_reply_was_lost_is_granted_when_it_asks_again(subject: &dyn Subject) {
    let case = Case::new(subject, "lost attempt");
    let (mut unlucky, script) = lossy(&case).await;
    script.next(Verb::Attempt, Act::Lost);
    is_lost(unlucky.claim.attempt().await);
    let again = unlucky.takes().await;
    match script.calls()[0].reply {
        Some(Reply::Attempt(Attempt::Granted(lost))) => {
            assert!(again.tokens.first() >= lost.tokens.first());
        }
        lost => panic!("a free key was not granted: {lost:?}"),
    }
    unlucky.renews().await;
    unlucky.releases().await;
    unlucky.leaves().await;
    case.is_free(&case.process().await).await;
}

/// It neither stands twice in the line, nor moves back.
pub async fn a_place_in_the_line_whose_reply_was_lost_is_taken_once(subject: &dyn Subject) {
    let case = Case::new(subject, "lost place");
    let one = case.process().await;
    let (mut holder, mut last) = (one.claim("the holder"), one.claim("the last"));
    let (mut unlucky, script) = lossy(&case).await;
    holder.takes().await;
    script.next(Verb::Attempt, Act::Lost);
    is_lost(unlucky.claim.attempt().await);
    last.is_blocked().await;
    unlucky.is_blocked().await;
    let waiters = one.waiters(2, case.soon()).await;
    if one.capabilities().fifo {
        assert!(unlucky.is(&waiters[0].claim) && last.is(&waiters[1].claim), "{waiters:?}");
    }
    last.leaves().await;
    holder.releases().await;
    unlucky.is_granted(case.soon()).await;
    unlucky.releases().await;
    case.is_free(&one).await;
}

/// And the tokens that were reserved unseen are not given to others.
pub async fn a_renewal_whose_reply_was_lost_can_be_repeated(subject: &dyn Subject) {
    let case = Case::new(subject, "lost renewal");
    let one = case.process().await;
    let (mut unlucky, script) = lossy(&case).await;
    unlucky.takes().await;
    script.next(Verb::Renew, Act::Lost);
    is_lost(unlucky.claim.renew().await);
    unlucky.renews().await;
    unlucky.releases().await;
    let mut next = one.claim("the next");
    let grant = case.takes(&one, &mut next).await;
    for call in script.calls() {
        let before = match call.reply {
            Some(Reply::Attempt(Attempt::Granted(grant))) => grant,
            Some(Reply::Renewal(Renewal::Held(grant))) => grant,
            _ => continue,
        };
        assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    }
    next.releases().await;
    case.is_free(&one).await;
}

/// Asked again it holds nothing, and does not take the key from those that came after.
pub async fn a_withdrawal_whose_reply_was_lost_has_freed_the_key(subject: &dyn Subject) {
    let case = Case::new(subject, "lost withdrawal");
    let one = case.process().await;
    let mut next = one.claim("the next");
    let (mut unlucky, script) = lossy(&case).await;
    unlucky.takes().await;
    next.is_blocked().await;
    script.next(Verb::Withdraw, Act::Lost);
    is_lost(unlucky.claim.withdraw().await);
    next.is_granted(case.soon()).await;
    unlucky.leaves().await;
    next.renews().await;
    next.releases().await;
    case.is_free(&one).await;
}

/// It is so for one that was granted and for one that was put in line.
pub async fn an_attempt_whose_reply_was_lost_leaves_nothing_when_withdrawn(subject: &dyn Subject) {
    let case = Case::new(subject, "lost and withdrawn");
    let one = case.process().await;
    for queues in [true, false] {
        for held in [false, true] {
            let (process, script) = case.process().await.scripted();
            let claim = if queues { Process::claim } else { Process::unqueued };
            let mut unlucky = claim(&process, "the unlucky");
            let mut holder = one.claim("the holder");
            if held {
                holder.takes().await;
            }
            script.next(Verb::Attempt, Act::Lost);
            is_lost(unlucky.claim.attempt().await);
            if held {
                unlucky.leaves().await;
                assert!(one.inspect().await.waiters.is_empty());
                holder.releases().await;
            } else {
                unlucky.releases().await;
            }
            case.is_free(&one).await;
            let mut next = one.unqueued("the next");
            case.takes(&one, &mut next).await;
            next.releases().await;
        }
    }
}
