//! A server that knows which quorum it is a member of, and what it has lost.

use std::time::Duration;

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Claim, ClaimId, Enrolment, FaultKind, Member, MemberClaim, Terms, Withdrawal,
};
use lock_core::zookeeper::ZooKeeper;
use tests::wait::{eventually, within};
use zookeeper_client::CreateMode;

use crate::support::*;

fn enrolment(nonce: u64) -> Enrolment {
    Enrolment {
        quorum: "the first".into(),
        members: 3,
        lease_max: ms(60_000),
        nonce,
        incarnation: String::new(),
        ready_at: Duration::from_micros(123_456),
        token_min: None,
    }
}

fn claim(member: &ZooKeeper) -> <ZooKeeper as Backend>::Claim {
    let terms = Terms { tokens_max: 8, ..Terms::exclusive(ms(60_000)) };
    let id = ClaimId::from_bits(fastrand::u128(..));
    let mut claim = member.claim(&Key::new("k").expect("a good key"), id, terms);
    claim.count_from(1_000_000);
    claim
}

/// Writes an enrolment over what is there.
async fn enrol(member: &ZooKeeper, enrolment: &Enrolment) {
    let seen = member.probe().await.expect("a probe");
    assert!(member.enrol(&seen, enrolment).await.expect("an answer"));
}

/// The kind of the fault of an attempt.
async fn fault_of(claim: &mut impl Claim) -> FaultKind {
    claim.attempt().await.expect_err("a fault").kind()
}

/// The first token of a grant.
async fn first_token(claim: &mut impl Claim) -> u64 {
    match claim.attempt().await.expect("an answer") {
        Attempt::Granted(grant) => grant.tokens.first().expect("a token"),
        blocked => panic!("{blocked:?}"),
    }
}

#[tokio::test]
async fn an_enrolment_is_written_over_what_was_seen_and_nothing_else() {
    let server = one().await;
    let (member, other) = (server.member(), server.member());
    let (first, second) = (enrolment(1), enrolment(2));
    let none = member.probe().await.unwrap();
    assert_eq!((&none.enrolment, none.highest), (&None, 0));
    assert!(!other.enrol(&none, &first).await.unwrap(), "another session has probed");
    assert!(member.enrol(&none, &first).await.unwrap());
    assert!(!member.enrol(&none, &second).await.unwrap(), "there is one");
    let (seen, also_seen) = (member.probe().await.unwrap(), other.probe().await.unwrap());
    assert_eq!(seen.enrolment, Some(first.clone()));
    assert!(other.enrol(&also_seen, &second).await.unwrap());
    assert!(!member.enrol(&seen, &first).await.unwrap(), "it was changed");
    assert_eq!(member.probe().await.unwrap().enrolment, Some(second));
}

#[tokio::test]
async fn a_look_tells_the_servers_clock_and_its_highest_token() {
    let server = one().await;
    let member = server.member();
    let before = member.probe().await.unwrap();
    let mut holder = claim(&member);
    assert_eq!(first_token(&mut holder).await, 1_000_000);
    assert!(holder.raise(1_000_500).await.unwrap());
    let after = member.probe().await.unwrap();
    assert_eq!((before.highest, after.highest), (0, 1_000_500));
    assert!(after.now >= before.now && after.up_for >= before.up_for);
    assert!(after.now - before.now < ms(60_000) && after.up_for < ms(60_000));
    holder.withdraw().await.unwrap();
    assert_eq!(server.member().probe().await.unwrap().highest, 1_000_500, "the key is free");
}

/// So a new quorum need not wait where the path of its locks was made long before.
#[tokio::test]
async fn a_server_has_kept_its_data_since_the_path_of_the_locks_was_made() {
    let server = one().await;
    let member = server.member();
    let before = member.probe().await.unwrap().now;
    server.create("/locks", "", CreateMode::Persistent);
    let after = member.probe().await.unwrap().now;
    let probe = member_at(&format!("{}/locks", server.url()), LONG).probe().await.unwrap();
    let made = probe.now - probe.up_for;
    assert!((before..=after).contains(&made), "{made:?} is not in {before:?} to {after:?}");
}

#[tokio::test]
async fn an_attempt_is_served_under_the_enrolment_that_was_told_and_no_other() {
    let server = one().await;
    let member = server.member();
    member.serve_under(None);
    let mut early = claim(&member);
    assert_eq!(fault_of(&mut early).await, FaultKind::Unready);
    member.serve_under(Some(&enrolment(1)));
    assert_eq!(fault_of(&mut early).await, FaultKind::Unready, "the server has none");
    assert_eq!(server.children("/k"), [""; 0], "nothing was done");
    let token_min = Some(7_000_000);
    let repaired = Enrolment { token_min, ..enrolment(1) };
    enrol(&member, &repaired).await;
    assert_eq!(fault_of(&mut early).await, FaultKind::Unready, "it is another");
    member.serve_under(Some(&repaired));
    assert_eq!(first_token(&mut early).await, 7_000_001, "above the token_min");
    member.serve_under(None);
    assert_eq!(fault_of(&mut early).await, FaultKind::Unready);
    early.renew().await.expect("other verbs are served as ever");
    assert_eq!(early.withdraw().await.unwrap(), Withdrawal::Released);
}

/// The grant itself is made under the enrolment, not only the probe before it.
#[tokio::test]
async fn a_claim_that_waits_is_not_granted_by_a_server_that_was_enrolled_anew() {
    let server = one().await;
    let (member, other) = (server.member(), server.member());
    enrol(&member, &enrolment(1)).await;
    member.serve_under(Some(&enrolment(1)));
    let (mut holder, mut waiter) = (claim(&member), claim(&member));
    first_token(&mut holder).await;
    assert!(matches!(waiter.attempt().await, Ok(Attempt::Blocked { .. })));
    enrol(&other, &enrolment(2)).await;
    assert_eq!(holder.withdraw().await.unwrap(), Withdrawal::Released);
    within("word of the release", waiter.changed()).await;
    assert_eq!(fault_of(&mut waiter).await, FaultKind::Unready);
    member.serve_under(Some(&enrolment(2)));
    first_token(&mut waiter).await;
    waiter.withdraw().await.unwrap();
}

/// F41 (V2): whatever session comes after the loss, the member grants nothing by itself.
#[tokio::test]
async fn a_server_that_lost_its_data_grants_nothing_until_it_is_enrolled_anew() {
    let mut server = one().await;
    let member = member_at(&server.url(), SHORT);
    enrol(&member, &enrolment(1)).await;
    member.serve_under(Some(&enrolment(1)));
    let mut holder = claim(&member);
    first_token(&mut holder).await;
    server.restart_empty();
    let mut next = claim(&member);
    let asking = async {
        loop {
            match next.attempt().await {
                Err(fault) if fault.kind() == FaultKind::Unready => return,
                Err(fault) => assert!(fault.is_transient(), "{fault}"),
                Ok(answer) => panic!("{answer:?}"),
            }
        }
    };
    within("the loss is seen", asking).await;
    assert_eq!(member.probe().await.unwrap().enrolment, None);
    assert_eq!(holder.renew().await.unwrap(), lock_core::backend::Renewal::Lost);
    enrol(&member, &enrolment(2)).await;
    member.serve_under(Some(&enrolment(2)));
    first_token(&mut next).await;
    next.withdraw().await.unwrap();
}

/// F34: nothing is overwritten.
#[tokio::test]
async fn foreign_data_where_an_enrolment_or_a_counter_would_be_is_refused() {
    let server = one().await;
    let member = server.member();
    let mut holder = claim(&member);
    first_token(&mut holder).await;
    holder.withdraw().await.unwrap();
    enrol(&member, &enrolment(1)).await;
    let seen = member.probe().await.unwrap();
    let counter = format!("/{{lock-tokens}}/{}", server.children("/{lock-tokens}")[0]);
    server.set_data(&counter, "theirs");
    let mut next = claim(&member);
    assert_eq!(fault_of(&mut next).await, FaultKind::ForeignValue);
    next.withdraw().await.unwrap();
    eventually("no lock node is left", || server.children("/k").is_empty()).await;
    server.set_data("/{lock-quorum}", "theirs");
    assert_eq!(member.probe().await.unwrap_err().kind(), FaultKind::ForeignValue);
    let over = member.enrol(&seen, &enrolment(2)).await;
    assert_eq!(over.unwrap_err().kind(), FaultKind::ForeignValue);
    for path in [&*counter, "/{lock-quorum}"] {
        assert_eq!(server.node(path).unwrap().data, b"theirs");
    }
}
