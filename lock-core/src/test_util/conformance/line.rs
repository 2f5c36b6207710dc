//! One holder, and the line behind it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::task::JoinSet;

use super::drive::{Case, eventually};
use crate::backend::{Renewal, Withdrawal};
use crate::ground::clock;
use crate::proto::lease::margin;
use crate::test_util::subject::Subject;

/// Processes, claims in each, and grants of each claim.
const PROCESSES: usize = 4;
const CLAIMS: usize = 4;
const ROUNDS: usize = 5;

/// The traces that the holder of the moment left for the others to see.
#[derive(Default)]
struct Inside {
    until: Option<Instant>,
    last: u64,
    grants: usize,
}

/// Many processes at once, and never two inside; and the tokens say in which order they were.
pub async fn one_claim_holds_a_key_at_a_time(subject: &dyn Subject) {
    let case = Case::new(subject, "exclusion");
    let inside = Arc::new(Mutex::new(Inside::default()));
    let within = case.soon() * 4;
    let mut claims = JoinSet::new();
    let first = case.process().await;
    let fencing = first.capabilities().fencing;
    for _ in 0..PROCESSES {
        let process = case.process().await;
        for _ in 0..CLAIMS {
            let mut makes = Vec::new();
            for _ in 0..ROUNDS {
                makes.push(process.claim("a claim of many"));
            }
            let inside = inside.clone();
            claims.spawn(async move {
                for mut claim in makes {
                    let grant = claim.is_granted(within).await;
                    let until =
                        claim.sent + grant.valid_for.saturating_sub(margin(grant.valid_for));
                    {
                        let mut inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
                        let other = inside.until.filter(|other| clock::now() < *other);
                        // A stall of the machine may have outlasted the lease: then it is no hold.
                        if clock::now() < until {
                            assert_eq!(other, None, "two claims hold the key");
                            inside.until = Some(until);
                            let first = grant.tokens.first().unwrap_or(0);
                            assert!(!fencing || first > inside.last, "{grant:?} is not above");
                            inside.last = inside.last.max(grant.tokens.last().unwrap_or(0));
                        }
                        inside.grants += 1;
                    }
                    tokio::task::yield_now().await;
                    inside.lock().unwrap_or_else(PoisonError::into_inner).until = None;
                    claim.withdrawal().await;
                }
            });
        }
    }
    while let Some(done) = claims.join_next().await {
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    let grants = inside.lock().unwrap_or_else(PoisonError::into_inner).grants;
    assert_eq!(grants, PROCESSES * CLAIMS * ROUNDS);
    case.is_free(&first).await;
}

/// It is checked only where [`Capabilities::fifo`](crate::backend::Capabilities) holds.
pub async fn claims_are_granted_in_their_order_of_arrival(subject: &dyn Subject) {
    let case = Case::new(subject, "fifo");
    let one = case.process().await;
    if !one.capabilities().fifo {
        return;
    }
    let mut holder = one.claim("the holder");
    holder.takes().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    let within = case.soon();
    for number in 0..6_u32 {
        let process = case.process().await;
        let mut waiter = process.claim("a waiter");
        if let Some(ahead) = waiter.is_blocked().await {
            assert_eq!(
                ahead,
                number + 1,
                "claims ahead of the waiter that came as number {number}"
            );
        }
        let order = order.clone();
        waiters.spawn(async move {
            waiter.is_granted(within).await;
            order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
            waiter.releases().await;
            drop(process);
        });
    }
    holder.releases().await;
    while let Some(done) = waiters.join_next().await {
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    let order = order.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

/// Pushed where that is promised: the next in line need not ask to learn of it.
pub async fn a_withdrawal_hands_the_key_to_the_next_in_line(subject: &dyn Subject) {
    let case = Case::new(subject, "hand-off");
    let (one, two) = (case.process().await, case.process().await);
    let (mut holder, mut next) = (one.claim("the holder"), two.claim("the next"));
    let before = holder.takes().await;
    next.is_blocked().await;
    holder.releases().await;
    if one.capabilities().push {
        next.is_told(case.soon(), "the hand-off was not pushed").await;
    }
    let grant = next.is_granted(case.soon()).await;
    assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    assert!(!grant.wanted, "nobody waits any more");
    // A grant that was handed on may be short at first; a renewal makes it whole.
    assert!(next.renews().await.valid_for >= case.lease());
    assert!(next.holds_in(&two.inspect().await));
    holder.leaves().await;
    next.releases().await;
    case.is_free(&one).await;
}

/// Where [`Capabilities::fifo`](crate::backend::Capabilities) holds: a key that is handed on is never free.
pub async fn a_claim_that_comes_late_does_not_overtake_a_hand_off(subject: &dyn Subject) {
    let case = Case::new(subject, "overtaking");
    let (one, two) = (case.process().await, case.process().await);
    if !one.capabilities().fifo {
        return;
    }
    let (mut holder, mut next) = (one.claim("the holder"), two.claim("the next"));
    holder.takes().await;
    next.is_blocked().await;
    holder.releases().await;
    let mut late = one.unqueued("the latecomer");
    late.is_blocked().await;
    next.is_granted(case.soon()).await;
    next.releases().await;
    late.takes().await;
    late.releases().await;
}

/// The claim behind it is next.
pub async fn a_waiter_that_gives_up_leaves_no_gap_in_the_line(subject: &dyn Subject) {
    let case = Case::new(subject, "give-up");
    let (one, two, three) = (case.process().await, case.process().await, case.process().await);
    let (mut holder, mut quitter, mut last) =
        (one.claim("the holder"), two.claim("the quitter"), three.claim("the last"));
    holder.takes().await;
    quitter.is_blocked().await;
    last.is_blocked().await;
    quitter.leaves().await;
    let waiters = one.waiters(1, case.soon()).await;
    assert!(last.is(&waiters[0].claim), "{waiters:?}");
    holder.releases().await;
    last.is_granted(case.soon()).await;
    quitter.leaves().await;
    last.renews().await;
    last.releases().await;
    case.is_free(&one).await;
}

/// It delays the others by a lease at most.
pub async fn a_waiter_whose_process_died_is_passed_over(subject: &dyn Subject) {
    let case = Case::new(subject, "dead waiter");
    let (one, two, three) = (case.process().await, case.process().await, case.process().await);
    let (mut holder, mut last) = (one.claim("the holder"), three.claim("the last"));
    holder.takes().await;
    let mut dead = two.claim_for(case.lease(), "the dead");
    dead.is_blocked().await;
    last.is_blocked().await;
    drop(dead);
    two.dies(subject);
    holder.releases().await;
    last.is_granted(case.a_lease_later()).await;
    last.releases().await;
    case.is_free(&one).await;
}

/// Its connection is there, but it does nothing about what it is told: stopped, or starved.
pub async fn a_waiter_that_hangs_is_passed_over(subject: &dyn Subject) {
    let case = Case::new(subject, "hung waiter");
    let (one, two, three) = (case.process().await, case.process().await, case.process().await);
    let (mut holder, mut last) = (one.claim("the holder"), three.claim("the last"));
    let mut hung = two.claim_for(case.lease(), "the hung");
    holder.takes().await;
    hung.is_blocked().await;
    last.is_blocked().await;
    holder.releases().await;
    let grant = last.is_granted(case.a_lease_later()).await;
    assert_eq!(hung.renewal().await, Renewal::Lost);
    hung.leaves().await;
    assert!(grant.valid_for > case.lease() / 2);
    last.renews().await;
    last.releases().await;
    case.is_free(&one).await;
}

/// Withdrawing is idempotent, and touches nobody else.
pub async fn withdrawing_again_changes_nothing(subject: &dyn Subject) {
    let case = Case::new(subject, "withdrawing");
    let (one, two) = (case.process().await, case.process().await);
    let (mut first, mut second) = (one.claim("the first"), two.claim("the second"));
    first.leaves().await;
    first.takes().await;
    second.is_blocked().await;
    second.leaves().await;
    second.leaves().await;
    first.renews().await;
    first.releases().await;
    case.takes(&two, &mut second).await;
    for _ in 0..3 {
        assert_eq!(first.withdrawal().await, Withdrawal::NotHeld);
    }
    second.renews().await;
    assert!(second.holds_in(&one.inspect().await));
    second.releases().await;
    second.leaves().await;
    case.is_free(&one).await;
}

/// It is not wanted, not waited for, and never granted after it was told "blocked".
pub async fn a_claim_that_may_not_queue_never_joins_the_line(subject: &dyn Subject) {
    let case = Case::new(subject, "not queued");
    let (one, two) = (case.process().await, case.process().await);
    let (mut holder, mut hasty) = (one.claim("the holder"), two.unqueued("the hasty"));
    holder.takes().await;
    for _ in 0..2 {
        hasty.is_blocked().await;
        assert_eq!(one.inspect().await.waiters, []);
        assert!(!holder.renews().await.wanted);
    }
    holder.releases().await;
    eventually("the key is nobody's", case.soon(), async || two.inspect().await.holders.is_empty())
        .await;
    hasty.leaves().await;
    case.takes(&two, &mut hasty).await;
    hasty.releases().await;
    case.is_free(&one).await;
}
