//! Claims: who may run.

use std::time::Duration;

use super::drive::{Process, fresh_id, payload, token};
use super::subject::RecordSubject;
use crate::idempotency::{Claimed, Found, Outcome, Written};

/// How many claim at once.
const CLAIMS: u64 = 100;

/// The number of processes that they are of.
const PROCESSES: u64 = 4;

/// A claim on a free record is granted, and every process sees it in flight under its token.
pub async fn an_absent_record_is_claimed_and_then_in_flight_for_all(subject: &dyn RecordSubject) {
    let id = fresh_id();
    let (a, b) = (Process::open(subject, id).await, Process::open(subject, id).await);
    assert_eq!(a.peek().await, Found::Absent);
    assert_eq!(b.peek().await, Found::Absent);
    a.claim_free(7).await;
    for process in [&a, &b] {
        Process::assert_in_flight(&process.peek().await, 7);
    }
}

/// The results of a hundred claims of four processes, under tokens from 1 to 100.
async fn rush(subject: &dyn RecordSubject, refusing: bool) -> (Process, Vec<(u64, Claimed)>) {
    let id = fresh_id();
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        let process = Process::open(subject, id).await;
        processes.push(if refusing { process.refusing() } else { process });
    }
    let claims = (1..=CLAIMS).map(|value| {
        let process = processes[(value % PROCESSES) as usize].clone();
        tokio::spawn(async move { (value, process.claim(value).await) })
    });
    // All are under way before the first is awaited.
    let claims: Vec<_> = claims.collect();
    let mut claimed = Vec::new();
    for claim in claims {
        claimed.push(claim.await.expect("a claim does not panic"));
    }
    (processes.remove(0), claimed)
}

/// Claims are atomic: where none may take over, one of a hundred is granted, and all others find
/// it.
pub async fn of_a_hundred_claims_at_once_one_wins(subject: &dyn RecordSubject) {
    let (process, claims) = rush(subject, true).await;
    let won = |claim: &&(u64, Claimed)| claim.1 == Claimed::Claimed { replaced: None };
    let winners: Vec<_> = claims.iter().filter(won).map(|(value, _)| *value).collect();
    assert_eq!(winners.len(), 1, "the winners are {winners:?}");
    for (value, claim) in &claims {
        let expected = match value.cmp(&winners[0]) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Less => matches!(claim, Claimed::InFlight { .. }),
            std::cmp::Ordering::Greater => matches!(claim, Claimed::Unknown { .. }),
        };
        assert!(expected, "{value} beside {winners:?} got {claim:?}");
    }
    Process::assert_in_flight(&process.peek().await, winners[0]);
}

/// Where a greater token may take over, each takes over from one that was granted before, none
/// from two, and the greatest stays.
pub async fn of_a_hundred_claims_at_once_that_may_take_over_the_greatest_token_stays(
    subject: &dyn RecordSubject,
) {
    let (process, claims) = rush(subject, false).await;
    let mut granted = Vec::new();
    for (value, claim) in claims {
        match claim {
            Claimed::Claimed { replaced } => granted.push((token(value), replaced)),
            Claimed::InFlight { token: of, .. } => assert!(of > token(value)),
            other => panic!("{value} got {other:?}"),
        }
    }
    granted.sort_unstable();
    let mut before = None;
    for (value, replaced) in granted {
        assert_eq!(replaced, before, "what {value} took over from");
        before = Some(value);
    }
    assert_eq!(before, Some(token(CLAIMS)));
    Process::assert_in_flight(&process.peek().await, CLAIMS);
}

/// A repetition under the same token is granted as the first was, and says the same of what it
/// took over from.
pub async fn a_claim_whose_reply_was_lost_is_answered_the_same_when_it_asks_again(
    subject: &dyn RecordSubject,
) {
    let process = Process::open(subject, fresh_id()).await;
    for _ in 0..3 {
        process.claim_free(7).await;
    }
    for _ in 0..3 {
        assert_eq!(process.claim(9).await, Claimed::Claimed { replaced: Some(token(7)) });
    }
    // Refusing is about others.
    let claimed = process.refusing().claim(9).await;
    assert_eq!(claimed, Claimed::Claimed { replaced: Some(token(7)) });
}

/// In flight under a smaller token: `Reexecute` takes over and learns from whom, `Refuse` learns
/// of it and changes nothing.
pub async fn an_execution_without_an_outcome_is_taken_over_or_refused_as_the_claim_says(
    subject: &dyn RecordSubject,
) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    let refused = process.refusing().claim(8).await;
    assert!(matches!(refused, Claimed::Unknown { .. }), "{refused:?}");
    Process::assert_in_flight(&process.peek().await, 7);
    assert_eq!(process.claim(8).await, Claimed::Claimed { replaced: Some(token(7)) });
    Process::assert_in_flight(&process.peek().await, 8);
}

/// In flight under a greater token: the caller is the stale one, whatever it asks for.
pub async fn a_claim_under_a_smaller_token_finds_the_execution_in_flight(
    subject: &dyn RecordSubject,
) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    for claimed in [process.claim(6).await, process.refusing().claim(6).await] {
        let Claimed::InFlight { token: of, .. } = claimed else { panic!("{claimed:?}") };
        assert_eq!(of, token(7));
    }
    // Tokens are compared as numbers of 64 bits: these two are one as floating point.
    let (small, great) = (1 << 53, (1 << 53) + 1);
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(great).await;
    let claimed = process.claim(small).await;
    assert!(matches!(claimed, Claimed::InFlight { .. }), "{claimed:?}");
    let claimed = process.claim(u64::MAX / 2).await;
    assert_eq!(claimed, Claimed::Claimed { replaced: Some(token(great)) });
}

/// A request under another fingerprint is told so, and the record is as it was: in flight, or
/// completed with a payload or without.
pub async fn another_fingerprint_is_a_mismatch_and_leaves_the_record_alone(
    subject: &dyn RecordSubject,
) {
    for outcome in [None, Some(payload("done")), Some(Outcome::WithoutPayload)] {
        let process = Process::open(subject, fresh_id()).await;
        process.claim_free(7).await;
        if let Some(outcome) = &outcome {
            assert_eq!(process.complete(7, outcome).await, Written::Yes);
        }
        let before = process.peek().await;
        let other = process.with_fingerprint(b'g');
        assert_eq!(other.peek().await, Found::Mismatch);
        for value in [6, 8] {
            assert_eq!(other.claim(value).await, Claimed::Mismatch);
            assert_eq!(other.refusing().claim(value).await, Claimed::Mismatch);
        }
        match (before, process.peek().await) {
            (Found::InFlight { token: before, .. }, Found::InFlight { token, .. }) => {
                assert_eq!(before, token);
            }
            (before, after) => assert_eq!(before, after),
        }
    }
}

/// A change to one record leaves another alone.
pub async fn records_of_two_ids_do_not_touch_one_another(subject: &dyn RecordSubject) {
    let a = Process::open(subject, fresh_id()).await;
    let b = a.elsewhere();
    a.claim_free(7).await;
    b.claim_free(3).await;
    assert_eq!(a.complete(7, &payload("a")).await, Written::Yes);
    Process::assert_in_flight(&b.peek().await, 3);
    assert_eq!(b.abort(3).await, Written::Yes);
    assert_eq!(a.peek().await, Found::Done("a".into()));
}

/// Ages count from the claim, by the store's clock, and a repetition does not begin them anew.
pub async fn an_age_is_the_time_since_the_claim(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    let pause = Duration::from_millis(200);
    tokio::time::sleep(pause).await;
    process.claim_free(7).await;
    let found = process.peek().await;
    let Found::InFlight { age, .. } = found else { panic!("{found:?}") };
    // The store may count in milliseconds.
    let least = pause - Duration::from_millis(2);
    assert!(age >= least && age < pause + subject.slack(), "{age:?}");
    let claimed = process.refusing().claim(8).await;
    let Claimed::Unknown { age: later } = claimed else { panic!("{claimed:?}") };
    assert!(later >= age, "{later:?} after {age:?}");
}
