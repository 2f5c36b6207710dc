//! Leases that end, and leases that go on.

use std::time::Duration;

use tokio::time::sleep;

use super::drive::{Case, LOOK, eventually};
use crate::backend::{Claim, Renewal};
use crate::ground::clock;
use crate::proto::lease::margin;
use crate::test_util::subject::Subject;

/// Not before its end by the clock of the holder, and not much later.
pub async fn a_lease_that_nobody_renews_ends_and_the_next_in_line_is_granted(
    subject: &dyn Subject,
) {
    let case = Case::new(subject, "expiry");
    let (one, two) = (case.process().await, case.process().await);
    let mut silent = one.claim_for(case.lease(), "the silent");
    let mut next = two.claim("the next");
    let before = silent.takes().await;
    let safe_until = silent.sent + before.valid_for.saturating_sub(margin(before.valid_for));
    next.is_blocked().await;
    let grant = next.is_granted(case.a_lease_later()).await;
    assert!(clock::now() >= safe_until, "granted while the holder's lease was good");
    assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    assert_eq!(silent.renewal().await, Renewal::Lost);
    assert_eq!(silent.renewal().await, Renewal::Lost, "a lost claim stays lost");
    silent.leaves().await;
    next.renews().await;
    assert!(next.holds_in(&one.inspect().await));
    next.releases().await;
    case.is_free(&one).await;
}

/// As long as it is renewed, nobody else is granted.
pub async fn a_renewed_lease_goes_on(subject: &dyn Subject) {
    let case = Case::new(subject, "renewal");
    let (one, two) = (case.process().await, case.process().await);
    // Twice as long, for a machine that stalls.
    let lease = case.lease() * 2;
    let (mut holder, mut waiter) = (one.claim_for(lease, "the holder"), two.claim("the waiter"));
    holder.takes().await;
    let end = holder.sent + lease * 2;
    let (mut asked_before, mut is_prompt) = (holder.sent, false);
    while clock::now() < end {
        waiter.is_blocked().await;
        sleep(lease / 8).await;
        let asked = clock::now();
        let grant = holder.renews().await;
        // A store that asks several counts from the earliest question that it goes by: where one of
        // them answers late, that is of the renewal before.
        let counted_from = |asked| grant.valid_for + (clock::now() - asked) > lease * 9 / 10;
        assert!(counted_from(asked_before) && grant.valid_for <= lease, "{grant:?}");
        is_prompt |= counted_from(asked);
        asked_before = asked;
    }
    assert!(is_prompt, "each renewal counts from an earlier question");
    waiter.is_blocked().await;
    holder.releases().await;
    waiter.is_granted(case.soon()).await;
    waiter.releases().await;
    case.is_free(&one).await;
}

/// Even if the key is free: a renewal never takes the key anew.
pub async fn a_renewal_after_the_lease_ended_is_lost(subject: &dyn Subject) {
    let case = Case::new(subject, "late renewal");
    let one = case.process().await;
    let mut late = one.claim_for(case.lease(), "the late");
    assert_eq!(late.renewal().await, Renewal::Lost, "a claim that never asked holds nothing");
    let grant = late.takes().await;
    sleep(grant.valid_for + Duration::from_millis(1)).await;
    let over = case.soon();
    eventually("the lease is over", over, async || one.inspect().await.holders.is_empty()).await;
    assert_eq!(late.renewal().await, Renewal::Lost);
    assert_eq!(late.renewal().await, Renewal::Lost);
    assert_eq!(one.inspect().await.holders, [], "the renewal took the key anew");
    late.leaves().await;
    let mut other = one.claim("the other");
    case.takes(&one, &mut other).await;
    other.releases().await;
    case.is_free(&one).await;
}

/// Within its lease; those in line need no message for it.
pub async fn a_holder_whose_process_died_is_followed(subject: &dyn Subject) {
    let case = Case::new(subject, "dead holder");
    let (one, two) = (case.process().await, case.process().await);
    let mut dead = one.claim_for(case.lease(), "the dead");
    let mut next = two.claim("the next");
    let before = dead.takes().await;
    next.is_blocked().await;
    drop(dead);
    one.dies(subject);
    let grant = next.is_granted(case.a_lease_later()).await;
    assert!(!two.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    next.renews().await;
    next.releases().await;
    case.is_free(&two).await;
}

/// A claim that is dropped counts as dead too; what it leaves ends with its lease. Then the store
/// keeps nothing, see [`Subject::left_behind`].
pub async fn nothing_is_left_behind(subject: &dyn Subject) {
    let case = Case::new(subject, "nothing left");
    let (one, two) = (case.process().await, case.process().await);
    let mut keys = Vec::new();
    for number in 0..20 {
        let case = case.other(number);
        let (one, two) = (case.process().await, case.process().await);
        let (mut holder, mut waiter) = (one.claim("a holder"), two.claim("a waiter"));
        holder.takes().await;
        waiter.is_blocked().await;
        match number % 3 {
            0 => waiter.leaves().await,
            1 => {
                holder.releases().await;
                waiter.is_granted(case.soon()).await;
                waiter.releases().await;
                holder.leaves().await;
                keys.push((case, one));
                continue;
            }
            _ => {
                // The push of the hand-off and the give-up cross each other.
                let given = async { drop(waiter.claim.withdraw().await) };
                let left = async { drop(holder.claim.withdraw().await) };
                tokio::join!(given, left);
            }
        }
        drop(holder.claim.withdraw().await);
        keys.push((case, one));
    }
    for (case, process) in &keys {
        case.is_free(process).await;
    }
    drop((keys, one, two));
    let (mut left, end) = (subject.left_behind().await, clock::now() + case.soon());
    while !left.is_empty() {
        assert!(clock::now() < end, "the store keeps {left:?}");
        sleep(LOOK).await;
        left = subject.left_behind().await;
    }
}
