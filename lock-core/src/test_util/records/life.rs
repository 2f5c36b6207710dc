//! When a record ends.

use std::time::Duration;

use super::drive::{LONG, Process, fresh_id, payload};
use super::subject::RecordSubject;
use crate::ground::clock;
use crate::idempotency::{Claimed, Found, Outcome, Written};

/// A claim that nobody completes is gone after its life, not before, and what comes later is
/// stale.
pub async fn a_record_in_flight_ends_with_its_life(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await.with_ttl(subject.ttl());
    let begun = clock::now();
    process.claim_free(7).await;
    process.is_gone_within(subject.ttl() + subject.slack()).await;
    ended_in_time(subject, clock::now() - begun);
    assert_eq!(process.complete(7, &payload("late")).await, Written::Stale);
    assert_eq!(process.peek().await, Found::Absent);
    process.refusing().with_ttl(LONG).claim_free(8).await;
}

/// An outcome is gone after its life, not before, and a new claim is granted.
pub async fn a_completed_record_ends_with_its_life(subject: &dyn RecordSubject) {
    for outcome in [payload("done"), Outcome::WithoutPayload] {
        let process = Process::open(subject, fresh_id()).await;
        process.claim_free(7).await;
        let begun = clock::now();
        let short = process.with_ttl(subject.ttl());
        assert_eq!(short.complete(7, &outcome).await, Written::Yes);
        process.is_gone_within(subject.ttl() + subject.slack()).await;
        ended_in_time(subject, clock::now() - begun);
        process.claim_free(8).await;
    }
}

#[track_caller]
fn ended_in_time(subject: &dyn RecordSubject, took: Duration) {
    // The store may count in milliseconds.
    assert!(took + Duration::from_millis(2) >= subject.ttl(), "it ended after {took:?}");
}

/// A living execution claims again, and so keeps its record; whoever looks at it does not.
pub async fn claiming_again_extends_the_life_and_looking_does_not(subject: &dyn RecordSubject) {
    // Twice as long, and claimed twice as often, for a machine that stalls.
    let ttl = subject.ttl() * 2;
    let process = Process::open(subject, fresh_id()).await.with_ttl(ttl);
    process.claim_free(7).await;
    for _ in 0..5 {
        tokio::time::sleep(ttl / 4).await;
        process.claim_free(7).await;
    }
    let found = process.peek().await;
    let Found::InFlight { age, .. } = found else { panic!("{found:?}") };
    // Had it ended in between, it would be young.
    assert!(age + Duration::from_millis(5) >= ttl / 4 * 5, "{age:?}");
    // Looks all the time.
    process.is_gone_within(ttl + subject.slack()).await;
}

/// The life of an outcome does not end with that of the claim before it.
pub async fn a_completion_begins_a_life_of_its_own(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await;
    let other = process.elsewhere();
    let short = process.with_ttl(subject.ttl());
    short.claim_free(7).await;
    assert_eq!(process.complete(7, &payload("done")).await, Written::Yes);
    // A record whose life began later is gone first.
    other.with_ttl(subject.ttl()).claim_free(7).await;
    other.is_gone_within(subject.ttl() + subject.slack()).await;
    assert_eq!(process.peek().await, Found::Done("done".into()));
}

/// A record that is put back lives as long as it was to, not longer.
pub async fn what_an_abort_puts_back_ends_with_its_own_life(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await;
    process.with_ttl(subject.ttl()).claim_free(7).await;
    let taken = process.claim(8).await;
    assert!(matches!(taken, Claimed::Claimed { replaced: Some(_) }), "{taken:?}");
    assert_eq!(process.abort(8).await, Written::Yes);
    Process::assert_in_flight(&process.peek().await, 7);
    process.is_gone_within(subject.ttl() + subject.slack()).await;
    // One whose life is over already is not put back.
    let other = process.elsewhere();
    other.with_ttl(subject.ttl()).claim_free(7).await;
    let taken = other.claim(8).await;
    assert!(matches!(taken, Claimed::Claimed { replaced: Some(_) }), "{taken:?}");
    tokio::time::sleep(subject.ttl()).await;
    assert_eq!(other.abort(8).await, Written::Yes);
    assert_eq!(other.peek().await, Found::Absent);
}

/// Nothing is left of records that have lived their time, and nothing to be seen of those that
/// were aborted. It wants the store for itself.
pub async fn nothing_is_left_behind(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await.with_ttl(subject.ttl());
    process.claim_free(7).await;
    assert_eq!(process.complete(7, &payload("done")).await, Written::Yes);
    let other = process.elsewhere();
    other.claim_free(3).await;
    assert_eq!(other.abort(3).await, Written::Yes);
    assert_eq!(other.peek().await, Found::Absent);
    process.is_gone_within(subject.ttl() + subject.slack()).await;
    // Records that other properties have left in a store that they share end later.
    let ours = process.id.to_string();
    let left = subject.left_behind().await;
    let left: Vec<_> = left.iter().filter(|line| line.contains(&ours)).collect();
    assert!(left.is_empty(), "{left:?}");
}
