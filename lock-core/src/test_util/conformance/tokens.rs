//! Fencing tokens. Nothing is checked where [`Capabilities::fencing`](crate::backend::Capabilities) does not
//! hold.

use super::drive::Case;
use crate::backend::Grant;
use crate::test_util::subject::Subject;

/// Everything given so far under one key.
#[derive(Debug, Default)]
struct Given(u64);

impl Given {
    /// The tokens of a grant are above all before them. A renewal of a hold may repeat its own.
    fn add(&mut self, grant: Grant) {
        let (first, last) = (grant.tokens.first(), grant.tokens.last());
        let first = first.unwrap_or_else(|| panic!("{grant:?} has no token"));
        assert!(first > self.0, "token {first} after {}", self.0);
        self.0 = last.unwrap_or(first);
    }
}

/// Over releases, hand-offs, renewals and leases that ended.
pub async fn tokens_grow_with_every_grant_of_a_key(subject: &dyn Subject) {
    let case = Case::new(subject, "tokens");
    let (one, two) = (case.process().await, case.process().await);
    if !one.capabilities().fencing {
        return;
    }
    let mut given = Given::default();
    for round in 0..12 {
        let lease = if round == 5 { Some(case.lease()) } else { None };
        let claim = |name| match lease {
            Some(lease) => one.claim_for(lease, name),
            None => one.claim_for(case.lease() * 60, name),
        };
        let (mut holder, mut next) = (claim("the holder"), two.claim("the next"));
        given.add(case.takes(&one, &mut holder).await);
        next.is_blocked().await;
        if round % 3 == 0 {
            let renewed = holder.renews().await.tokens;
            given.0 = given.0.max(renewed.last().unwrap_or(0));
        }
        if lease.is_none() {
            holder.releases().await;
        }
        given.add(next.is_granted(case.a_lease_later()).await);
        next.releases().await;
        holder.leaves().await;
    }
    case.is_free(&one).await;
}

/// Keys that come and go do not disturb each other.
pub async fn tokens_of_many_keys_grow_key_by_key(subject: &dyn Subject) {
    let case = Case::new(subject, "tokens of many");
    if !case.process().await.capabilities().fencing {
        return;
    }
    let mut keys = Vec::new();
    for number in 0..50 {
        let case = case.other(number);
        let process = case.process().await;
        keys.push((process, Given::default()));
    }
    for round in 0..6 {
        for (number, (process, given)) in keys.iter_mut().enumerate() {
            if (round + number) % 3 == 0 {
                continue;
            }
            let mut holder = process.claim("a holder");
            given.add(case.takes(process, &mut holder).await);
            holder.releases().await;
        }
    }
}
