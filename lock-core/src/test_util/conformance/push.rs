//! Being told.

use tokio::time::timeout;

use super::drive::{Case, eventually};
use crate::backend::Claim;
use crate::test_util::subject::Subject;

/// By a push where that is promised, and by the answer to its next renewal anyway.
pub async fn a_holder_learns_that_others_wait_and_that_they_are_gone(subject: &dyn Subject) {
    let case = Case::new(subject, "wanted");
    let (one, two) = (case.process().await, case.process().await);
    let (mut holder, mut waiter) = (one.claim("the holder"), two.claim("the waiter"));
    assert!(!holder.takes().await.wanted);
    assert!(!holder.renews().await.wanted);
    for _ in 0..2 {
        waiter.is_blocked().await;
        if one.capabilities().push {
            holder.is_told(case.soon(), "the holder was not told that another waits").await;
        }
        // The first members of a quorum to answer may be those that have not told yet.
        eventually("another waits", case.soon(), async || holder.renews().await.wanted).await;
        waiter.leaves().await;
        eventually("nobody waits", case.soon(), async || !holder.renews().await.wanted).await;
    }
    holder.releases().await;
    case.is_free(&one).await;
}

/// `changed` goes on resolving until `attempt` or `renew` was asked, and a waiter that was
/// dropped half way has taken nothing away.
pub async fn a_change_is_told_until_the_store_was_asked(subject: &dyn Subject) {
    let case = Case::new(subject, "changed");
    let (one, two) = (case.process().await, case.process().await);
    if !one.capabilities().push {
        return;
    }
    let (mut holder, mut next) = (one.claim("the holder"), two.claim("the next"));
    holder.takes().await;
    {
        // Polled once before there is anything to tell, and dropped.
        let early = std::pin::pin!(holder.claim.changed());
        drop(timeout(std::time::Duration::ZERO, early).await);
    }
    next.is_blocked().await;
    for _ in 0..3 {
        holder.is_told(case.soon(), "the holder was not told, or was told once only").await;
    }
    eventually("another waits", case.soon(), async || holder.renews().await.wanted).await;
    holder.releases().await;
    for _ in 0..3 {
        next.is_told(case.soon(), "the next in line was not told, or was told once only").await;
    }
    next.is_granted(case.soon()).await;
    next.releases().await;
    case.is_free(&one).await;
}
