//! The holder of a key at a majority, and the state of each member. A key is taken away here, too.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Instant;

use futures_util::future::{join_all, maybe_done};

use super::Members;
use super::membership::{MembershipState, Standing};
use crate::backend::{Backend, Fault, FaultKind};
use crate::ground::clock;
use crate::key::Key;
use crate::proto::majority_of;
use crate::view::{Holder, Inspection, KeyList, MemberHealth, MemberState, Waiter};

/// The digits of a claim's id that its places at members have in common.
const CLAIM_DIGITS: usize = 24;

type Answer = Result<Inspection, Fault>;

pub(super) async fn inspect<B: Backend>(members: &Members<B>, key: &Key) -> Answer {
    let answers = join_all(members.all.iter().map(|member| member.inspect(key))).await;
    let majority = majority_of(members.all.len());
    let seen = of_majority(&answers)?;
    let holder = holder(&seen, majority);
    let claim = holder.as_ref().map(|holder| holder.claim.as_str());
    let health = health(members.membership.as_deref(), &answers, claim);
    Ok(Inspection::new(holder, waiters(&seen, majority)).with_members(health))
}

/// The keys that are held or waited for at any member: who holds them is an inspection's to tell.
pub(super) async fn list<B: Backend>(
    members: &Members<B>,
    within: Option<&Key>,
    max: usize,
) -> Result<KeyList, Fault> {
    let answers = join_all(members.all.iter().map(|member| member.list(within, max))).await;
    let lists = of_majority(&answers)?;
    let keys: BTreeSet<_> = lists.iter().flat_map(|list| &list.keys).cloned().collect();
    Ok(KeyList::new(keys, max, lists.iter().all(|list| list.is_whole)))
}

/// The answers of the members, of whom a majority must. Asking again is of no use only if those that
/// will never answer are too many by themselves.
fn of_majority<'a, A>(
    answers: impl IntoIterator<Item = &'a Result<A, Fault>>,
) -> Result<Vec<&'a A>, Fault> {
    let (mut answered, mut passing, mut lasting) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(answer) => answered.push(answer),
            Err(fault) if fault.is_transient() => passing.push(fault),
            Err(fault) => lasting.push(fault),
        }
    }
    let down = passing.len() + lasting.len();
    if answered.len() > down {
        return Ok(answered);
    }
    let members = answered.len() + down;
    let is_lasting = lasting.len() >= members - members / 2;
    let why = if is_lasting { lasting } else { passing }.pop();
    let kind = why.map_or(FaultKind::Transient, Fault::kind);
    let why = why.map(|fault| format!(", one says: {fault}")).unwrap_or_default();
    let what = format!("{down} of the {members} members of the quorum do not answer{why}");
    Err(Fault::new(kind, what))
}

/// Takes it from the one who holds it at a majority, and from all where nobody does. `true` if
/// there was one.
///
/// What another has of it at other members stays: it may be the next one's, who counts on it. The
/// first majority that has the same holder begins: a member that hangs keeps nobody in the key. Where
/// too few answer to tell, nothing is taken.
pub(super) async fn force_release<B: Backend>(
    members: &Members<B>,
    key: &Key,
) -> Result<bool, Fault> {
    let majority = majority_of(members.all.len());
    let looks = members.all.iter().map(|member| Box::pin(maybe_done(member.inspect(key))));
    let mut looks: Vec<_> = looks.collect();
    let found = poll_fn(|cx| {
        let mut all = true;
        for look in &mut looks {
            all &= look.as_mut().poll(cx).is_ready();
        }
        let answers = looks.iter_mut().filter_map(|look| look.as_mut().output_mut());
        let answers: Vec<_> = answers.map(|answer| &*answer).collect();
        let seen: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        match holder(&seen, majority) {
            None if !all => Poll::Pending,
            None => Poll::Ready(of_majority(answers).map(|_| None)),
            found => Poll::Ready(Ok(found)),
        }
    })
    .await?;
    let takes = members.all.iter().zip(&mut looks).map(async |(member, look)| {
        look.as_mut().await;
        let seen = look.as_mut().take_output().unwrap_or_else(|| unreachable!("it was awaited"))?;
        let is_theirs =
            |of: &Holder| seen.holders.iter().any(|here| common(&here.claim) == of.claim);
        if found.as_ref().is_some_and(|of| !is_theirs(of)) {
            return Ok(false);
        }
        member.force_release(key).await
    });
    let answers = join_all(takes).await;
    let answered = of_majority(&answers)?;
    let taken = answered.iter().filter(|&&&taken| taken).count();
    // One that was held nowhere by a majority was on its way from one holder to the next.
    Ok(taken >= if found.is_some() { 1 } else { majority })
}

/// The one who holds it at a majority.
fn holder(seen: &[&Inspection], majority: usize) -> Option<Holder> {
    let held_by = |claim: &str| {
        let by =
            |seen: &&&Inspection| seen.holders.iter().any(|holder| common(&holder.claim) == claim);
        seen.iter().filter(by).count() >= majority
    };
    let holders = seen.iter().flat_map(|seen| &seen.holders);
    holders.filter(|holder| held_by(common(&holder.claim))).max_by_key(|holder| holder.token).map(
        |holder| {
            // Its tokens are by the clock of whoever asked.
            let (claim, held_for) = (common(&holder.claim).to_owned(), None);
            Holder { claim, held_for, ..holder.clone() }
        },
    )
}

/// Those who wait at a majority, in the order of the longest line. The others are coming, or have
/// left.
fn waiters(seen: &[&Inspection], majority: usize) -> Vec<Waiter> {
    let waits = |claim: &str| {
        let at =
            |seen: &&&Inspection| seen.waiters.iter().any(|waiter| common(&waiter.claim) == claim);
        seen.iter().filter(at).count() >= majority
    };
    let longest = seen.iter().max_by_key(|seen| seen.waiters.len());
    let waiters = longest.map(|seen| seen.waiters.clone()).unwrap_or_default();
    let waiters = waiters.into_iter().filter(|waiter| waits(common(&waiter.claim)));
    waiters.map(|waiter| Waiter { claim: common(&waiter.claim).to_owned(), ..waiter }).collect()
}

fn health(
    membership: Option<&MembershipState>,
    answers: &[Answer],
    claim: Option<&str>,
) -> Vec<MemberHealth> {
    let now = clock::now();
    let each = answers.iter().enumerate().map(|(member, answer)| {
        let seat = membership.map(|membership| &membership.seats[member]);
        let here = answer.iter().flat_map(|seen| &seen.holders);
        let here = here.into_iter().find(|holder| Some(common(&holder.claim)) == claim);
        let state = match membership {
            Some(membership) if membership.is_foreign(member) => MemberState::AnotherQuorum,
            _ if answer.is_err() => MemberState::Unreachable,
            Some(membership) => state(&membership.seats[member].standing(), now),
            None => MemberState::Ready,
        };
        let answered = seat.and_then(|seat| seat.answered());
        MemberHealth {
            name: seat.map_or_else(|| member.to_string(), |seat| seat.name.clone()),
            state,
            holds: here.is_some(),
            lease_left: here.and_then(|holder| holder.lease_left),
            answered_ago: answered.map(|at| now.saturating_duration_since(at)),
        }
    });
    each.collect()
}

fn state(standing: &Standing, now: Instant) -> MemberState {
    match standing {
        Standing::Unseen => MemberState::Probing,
        Standing::Good(_) => MemberState::Ready,
        Standing::Early { until } => {
            MemberState::Quarantined { left: until.saturating_duration_since(now) }
        }
        Standing::Unrepaired => MemberState::Unrepaired,
        Standing::Unenrolled => MemberState::Unenrolled,
        Standing::Away(_) => MemberState::Unreachable,
    }
}

/// The part of a claim's id that is the same at all members: it may be joined anew under another
/// end.
fn common(claim: &str) -> &str {
    claim.get(..CLAIM_DIGITS).unwrap_or(claim)
}
