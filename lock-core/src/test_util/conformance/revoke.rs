//! Being asked to give the key up. Where [`Capabilities::revocation`](crate::backend::Capabilities) does not
//! hold, asking is refused and nothing else is checked.

use super::drive::{Case, Process, eventually, is_lost};
use super::lost::lossy;
use crate::backend::{Backend, Claim, FaultKind};
use crate::test_util::scripted::{Act, Verb};
use crate::test_util::subject::Subject;

/// Whether there is something to check; if not, asking must be refused.
async fn is_promised(process: &Process) -> bool {
    if process.capabilities().revocation {
        return true;
    }
    match process.backend.request_revoke(&process.key).await {
        Err(fault) if fault.kind() == FaultKind::Refused => false,
        answer => panic!("revocation is not promised, yet asking gave {answer:?}"),
    }
}

/// By a push where that is promised, and by the answer to every renewal from then on; it holds the
/// key as before.
pub async fn a_holder_is_asked_to_give_the_key_up_and_is_told(subject: &dyn Subject) {
    let case = Case::new(subject, "revocation");
    let (one, two) = (case.process().await, case.process().await);
    if !is_promised(&one).await {
        return;
    }
    let mut holder = one.claim("the holder");
    assert!(!holder.takes().await.revoke_requested);
    assert!(!holder.renews().await.revoke_requested, "nobody asked");
    assert!(two.asks_to_give_up().await, "somebody holds the key");
    if one.capabilities().push {
        holder.is_told(case.soon(), "the holder was not told that somebody asked").await;
    }
    let what = "the holder's renewal says that somebody asked";
    eventually(what, case.soon(), async || holder.renews().await.revoke_requested).await;
    assert!(two.asks_to_give_up().await, "asking again does no harm");
    assert!(holder.renews().await.revoke_requested, "it was told once only");
    assert!(holder.holds_in(&two.inspect().await), "a request does not take the key away");
    holder.releases().await;
    case.is_free(&one).await;
}

/// Not a waiter, not the next holder, and nobody where nobody holds.
pub async fn only_the_holder_of_the_moment_is_asked_to_give_the_key_up(subject: &dyn Subject) {
    let case = Case::new(subject, "revocation of one");
    let (one, two) = (case.process().await, case.process().await);
    if !is_promised(&one).await {
        return;
    }
    assert!(!one.asks_to_give_up().await, "nobody holds the key");
    let (mut holder, mut next) = (one.claim("the holder"), two.claim("the next"));
    holder.takes().await;
    next.is_blocked().await;
    assert!(two.asks_to_give_up().await);
    holder.releases().await;
    assert!(!next.is_granted(case.soon()).await.revoke_requested, "the next was not asked");
    assert!(!next.renews().await.revoke_requested, "the next was not asked");
    next.releases().await;
    let mut later = one.claim("the later");
    assert!(!case.takes(&one, &mut later).await.revoke_requested, "who comes later was not asked");
    later.releases().await;
    case.is_free(&one).await;
    assert!(!two.asks_to_give_up().await, "nobody holds the key any more");
}

/// Neither the reply to an attempt nor that to a renewal is the only one to tell it.
pub async fn a_reply_that_was_lost_does_not_take_the_request_with_it(subject: &dyn Subject) {
    let case = Case::new(subject, "lost revocation");
    let one = case.process().await;
    if !is_promised(&one).await {
        return;
    }
    for verb in [Verb::Attempt, Verb::Renew] {
        let (mut unlucky, script) = lossy(&case).await;
        script.next(verb, Act::Lost);
        if verb == Verb::Attempt {
            is_lost(unlucky.claim.attempt().await);
            assert!(one.asks_to_give_up().await, "the attempt took the key");
            let grant = unlucky.takes().await;
            if !grant.revoke_requested && one.capabilities().push {
                let why = "neither the grant nor a push tells that somebody asked";
                unlucky.is_told(case.soon(), why).await;
            }
        } else {
            unlucky.takes().await;
            assert!(one.asks_to_give_up().await);
            is_lost(unlucky.claim.renew().await);
        }
        let what = "the next renewal says that somebody asked";
        eventually(what, case.soon(), async || unlucky.renews().await.revoke_requested).await;
        unlucky.releases().await;
    }
    case.is_free(&one).await;
}
