//! One server as a member: what it serves, and when.

use std::time::Duration;

use deadpool_redis::{Config, Runtime};
use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Claim, ClaimId, Enrolment, FaultKind, Member, MemberClaim, Renewal, Terms,
    Withdrawal,
};
use lock_core::redis::Redis;
use lock_core::test_util::as_conductor;
use tests::redis::{RedisOptions, RedisServer};
use tests::wait::within;
use tokio::runtime::Builder;

use crate::support::ms;

const LEASE: Duration = ms(60_000);

/// A client of a server that it has enrolled, and that may grant.
async fn member(server: &RedisServer, pooled: bool) -> Redis {
    let url = server.url();
    let pool = || Config::from_url(url.clone()).create_pool(Some(Runtime::Tokio1)).expect("a URL");
    let member = Redis::connect(&url, pooled.then(|| pool().into())).await.expect("it answers");
    let probe = member.probe().await.unwrap();
    let enrolment = match &probe.enrolment {
        Some(enrolment) => enrolment.clone(),
        None => {
            let (quorum, incarnation) = ("q".to_owned(), probe.incarnation.clone());
            let (nonce, ready_at, token_min) = (7, probe.now, Some(0));
            let (members, lease_max) = (3, LEASE);
            let new =
                Enrolment { quorum, members, lease_max, nonce, incarnation, ready_at, token_min };
            assert!(member.enrol(&probe, &new).await.unwrap());
            member.probe().await.unwrap().enrolment.expect("it was written")
        }
    };
    member.serve_under(Some(&enrolment));
    member
}

fn claim(member: &Redis, clock: u64) -> <Redis as Backend>::Claim {
    let terms = Terms { tokens_max: 8, ..Terms::exclusive(LEASE) };
    let id = ClaimId::from_bits(fastrand::u128(..));
    let mut claim = member.claim(&Key::new("k").unwrap(), id, terms);
    claim.count_from(clock);
    claim
}

/// With all of its data, the enrolment too: only its incarnation tells that it may have lost some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_started_anew_grants_nothing_before_it_was_looked_at() {
    for pooled in [false, true] {
        let kept = RedisOptions::new().aof();
        let mut server = RedisServer::with(kept);
        let member = member(&server, pooled).await;
        let (mut holder, mut waiter) = (claim(&member, 1_000), claim(&member, 2_000));
        assert!(matches!(holder.attempt().await, Ok(Attempt::Granted(_))));
        assert!(matches!(waiter.attempt().await, Ok(Attempt::Blocked { .. })));
        server.restart();
        assert_eq!(server.command::<u64>(&["EXISTS", "lock:quorum", "lock:{k}"]), 2, "all there");
        let mut other = claim(&member, 3_000);
        let refused = within("a refusal", async {
            loop {
                match other.attempt().await {
                    Err(fault) if fault.kind() == FaultKind::Unready => return fault,
                    Err(fault) => assert!(fault.is_transient(), "{fault}"),
                    Ok(answer) => panic!("pooled: {pooled}: {answer:?}"),
                }
            }
        });
        refused.await;
        assert_eq!(holder.raise(9_000).await.unwrap_err().kind(), FaultKind::Unready);
        // The waiter is alive, and hears: it is not handed the key all the same.
        assert_eq!(holder.withdraw().await.unwrap(), Withdrawal::Released);
        assert_eq!(server.command::<u64>(&["EXISTS", "lock:{k}"]), 0, "pooled: {pooled}");
        // A connect that failed while it was away may be shared still.
        let probe = within("a probe", async {
            loop {
                if let Ok(probe) = member.probe().await {
                    return probe;
                }
            }
        });
        let probe = probe.await;
        assert_ne!(probe.enrolment.expect("it is there").incarnation, probe.incarnation);
        drop((waiter.withdraw().await, other.withdraw().await));
    }
}

/// The answer to a probe of before is told after the server was probed anew, as by the task of a
/// runtime that was blocked in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enrolment_of_before_a_restart_gives_no_leave_to_ask_over_the_connection_behind_it() {
    for pooled in [false, true] {
        let mut server = RedisServer::with(RedisOptions::new().aof());
        let member = member(&server, pooled).await;
        let before = member.probe().await.unwrap().enrolment.expect("a member");
        server.restart();
        let probe = within("a probe", async {
            loop {
                if let Ok(probe) = member.probe().await {
                    return probe;
                }
            }
        });
        assert_ne!(probe.await.incarnation, before.incarnation);
        member.serve_under(Some(&before));
        let mut claim = claim(&member, 1_000);
        let fault = claim.attempt().await.expect_err("it may have lost what it granted");
        assert_eq!(fault.kind(), FaultKind::Unready, "pooled: {pooled}");
        assert_eq!(server.command::<u64>(&["EXISTS", "lock:{k}"]), 0, "pooled: {pooled}");
    }
}

/// How often its scripts asked the server, without the count itself.
fn asked_who_it_is(server: &RedisServer) -> u64 {
    server.command_stats().calls("info")
}

/// The runtime of the application, which has probed it, is not driven any more, as if it were
/// blocked. What the conductor sends goes over the connection that was probed, so the server need
/// not be asked who it is. After a restart that connection is gone, and with it the leave to send.
#[test]
fn the_conductor_asks_over_the_connection_that_the_application_probed() {
    let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
    let kept = RedisOptions::new().aof();
    let mut server = RedisServer::with(kept);
    let (application, conductor) = (runtime(), runtime());
    let (member, mut held) = application.block_on(async {
        let member = member(&server, false).await;
        let mut held = claim(&member, 1_000);
        assert!(matches!(held.attempt().await, Ok(Attempt::Granted(_))));
        (member, held)
    });
    let here = as_conductor();
    conductor.block_on(async {
        assert!(held.raise(2_000).await.unwrap());
        assert_eq!(held.withdraw().await.unwrap(), Withdrawal::Released);
        server.reset_stats();
        held = claim(&member, 3_000);
        assert!(matches!(held.attempt().await, Ok(Attempt::Granted(_))));
        assert_eq!(asked_who_it_is(&server), 0);
    });
    server.restart();
    conductor.block_on(async {
        let mut other = claim(&member, 4_000);
        within("a refusal", async {
            while other.attempt().await.unwrap_err().kind() != FaultKind::Unready {}
        })
        .await;
        assert_eq!(held.raise(9_000).await.unwrap_err().kind(), FaultKind::Unready);
        // It probes itself, and has it served under its incarnation.
        let probe = member.probe().await.unwrap();
        let seen = probe.enrolment.clone().expect("it was kept");
        assert_ne!(seen.incarnation, probe.incarnation);
        let anew = Enrolment { incarnation: probe.incarnation.clone(), nonce: 8, ..seen };
        assert!(member.enrol(&probe, &anew).await.unwrap());
        member.serve_under(Some(&anew));
        server.reset_stats();
        assert!(matches!(other.attempt().await, Ok(Attempt::Blocked { .. })));
        assert_eq!(asked_who_it_is(&server), 0, "it knows the connection");
    });
    drop(here);
    application.block_on(async {
        let mut third = claim(&member, 5_000);
        within("an answer", async {
            // The connection broke with the server.
            while !matches!(third.attempt().await, Ok(Attempt::Blocked { .. })) {}
        })
        .await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_token_that_it_reserves_is_noted_whoever_reserves_it() {
    let server = RedisServer::start();
    let member = member(&server, false).await;
    let highest = async || member.probe().await.unwrap().highest;
    assert_eq!(highest().await, 0);
    let (mut one, mut two) = (claim(&member, 1_000), claim(&member, 900));
    assert!(matches!(one.attempt().await, Ok(Attempt::Granted(_))));
    assert_eq!(highest().await, 1_000);
    assert!(one.raise(5_000).await.unwrap());
    assert_eq!(highest().await, 5_000);
    // A renewal in a quorum reserves none.
    one.renew().await.unwrap();
    assert_eq!(highest().await, 5_000);
    assert!(matches!(two.attempt().await, Ok(Attempt::Blocked { .. })));
    one.count_from(6_000);
    one.withdraw().await.unwrap();
    assert_eq!(highest().await, 6_000, "of the hand-off");
    let Ok(Attempt::Granted(grant)) = two.attempt().await else { panic!("it was handed the key") };
    assert_eq!(grant.tokens.last(), Some(6_000));
    two.withdraw().await.unwrap();
}

#[tokio::test]
async fn an_enrolment_is_written_only_where_the_server_is_as_it_was_seen() {
    let server = RedisServer::start();
    let member = member(&server, false).await;
    let probe = member.probe().await.unwrap();
    let ours = probe.enrolment.clone().expect("it was enrolled");
    let other = Enrolment { nonce: 8, ..ours.clone() };
    let none = lock_core::backend::Probe { enrolment: None, ..probe.clone() };
    assert!(!member.enrol(&none, &other).await.unwrap(), "there is one");
    let before = lock_core::backend::Probe { incarnation: "another".into(), ..probe.clone() };
    assert!(!member.enrol(&before, &other).await.unwrap(), "it was started anew");
    let long_ago = lock_core::backend::Probe { now: probe.now - ms(2_500), ..probe.clone() };
    assert!(!member.enrol(&long_ago, &other).await.unwrap(), "it was seen too long ago");
    assert!(member.enrol(&probe, &other).await.unwrap());
    assert!(!member.enrol(&probe, &ours).await.unwrap(), "it was changed");
    server.command::<()>(&["SET", "lock:quorum", "theirs"]);
    assert_eq!(member.probe().await.unwrap_err().kind(), FaultKind::ForeignValue);
}

/// The clock of the client is an hour behind that of who had the key before: the fence goes on from
/// there, by so little that the clock catches up.
#[tokio::test]
async fn a_fence_that_is_ahead_of_the_clock_goes_on_by_little() {
    let server = RedisServer::start();
    let member = member(&server, false).await;
    let terms = Terms { tokens_max: 1 << 20, ..Terms::exclusive(LEASE) };
    let (ahead, mut last) = (8_000_000 * 3_600, None);
    for clock in [ahead, 1_000, 2_000] {
        let id = ClaimId::from_bits(fastrand::u128(..));
        let mut claim = member.claim(&Key::new("k").unwrap(), id, terms);
        claim.count_from(clock);
        let Ok(Attempt::Granted(grant)) = claim.attempt().await else { panic!("a free key") };
        assert!(last < grant.tokens.first(), "a finding of safety: {grant:?} after {last:?}");
        assert!(clock == ahead || grant.tokens.left() <= 512, "{grant:?}");
        last = grant.tokens.last();
        claim.withdraw().await.unwrap();
    }
}

/// A fence outlives the last lease under it by an hour, however often that was renewed.
#[tokio::test]
async fn a_renewal_keeps_the_fence_for_as_long_as_a_grant_does() {
    let server = RedisServer::start();
    let member = member(&server, false).await;
    let mut held = claim(&member, 1_000);
    assert!(matches!(held.attempt().await, Ok(Attempt::Granted(_))));
    let hour_ms = 3_600_000;
    // As if it were granted an hour ago.
    assert_eq!(server.command::<u64>(&["PEXPIRE", "lock:{k}:fence", "60000"]), 1);
    assert!(matches!(held.renew().await, Ok(Renewal::Held(_))));
    let kept_ms: i64 = server.command(&["PTTL", "lock:{k}:fence"]);
    assert!(kept_ms > hour_ms, "{kept_ms} ms");
    held.withdraw().await.unwrap();
}
