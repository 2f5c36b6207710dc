//! Completing and aborting.

use bytes::Bytes;

use super::drive::{Process, fresh_id, payload, token};
use super::subject::RecordSubject;
use crate::idempotency::{Claimed, Found, Outcome, Written};

/// Every process is given the payload, whatever its bytes, by looking and by claiming.
pub async fn a_completed_record_gives_its_payload_back_byte_for_byte(subject: &dyn RecordSubject) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = every_byte.repeat(4_096);
    for bytes in [&b""[..], b"\0", b"idem", &every_byte, &large] {
        let id = fresh_id();
        let (a, b) = (Process::open(subject, id).await, Process::open(subject, id).await);
        a.claim_free(7).await;
        let bytes = Bytes::copy_from_slice(bytes);
        assert_eq!(a.complete(7, &Outcome::Payload(bytes.clone())).await, Written::Yes);
        for process in [&a, &b] {
            assert_eq!(process.peek().await, Found::Done(bytes.clone()));
            assert_eq!(process.claim(6).await, Claimed::Done(bytes.clone()));
            assert_eq!(process.claim(9).await, Claimed::Done(bytes.clone()));
        }
    }
}

/// An outcome without payload is not one with an empty payload.
pub async fn an_outcome_without_payload_has_nothing_to_replay_and_nothing_runs_again(
    subject: &dyn RecordSubject,
) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    assert_eq!(process.complete(7, &Outcome::WithoutPayload).await, Written::Yes);
    assert_eq!(process.peek().await, Found::WithoutPayload);
    assert_eq!(process.claim(9).await, Claimed::WithoutPayload);
    assert_eq!(process.refusing().claim(9).await, Claimed::WithoutPayload);
}

/// The same outcome under the same token is written once and acknowledged each time.
pub async fn a_completion_whose_reply_was_lost_is_answered_the_same_when_it_asks_again(
    subject: &dyn RecordSubject,
) {
    for outcome in [payload("done"), payload(""), Outcome::WithoutPayload] {
        let process = Process::open(subject, fresh_id()).await;
        process.claim_free(7).await;
        for _ in 0..3 {
            assert_eq!(process.complete(7, &outcome).await, Written::Yes);
        }
    }
}

/// Another outcome under the token of a completed execution is stale.
pub async fn the_first_outcome_of_an_execution_stays(subject: &dyn RecordSubject) {
    for (first, found, others) in [
        (payload("one"), Found::Done("one".into()), [payload("two"), Outcome::WithoutPayload]),
        (Outcome::WithoutPayload, Found::WithoutPayload, [payload("two"), payload("")]),
    ] {
        let process = Process::open(subject, fresh_id()).await;
        process.claim_free(7).await;
        assert_eq!(process.complete(7, &first).await, Written::Yes);
        for other in &others {
            assert_eq!(process.complete(7, other).await, Written::Stale);
        }
        assert_eq!(process.peek().await, found);
    }
}

/// A late finisher changes nothing, neither while the next runs nor after it has ended.
pub async fn a_completion_after_another_took_over_is_stale_and_dropped(
    subject: &dyn RecordSubject,
) {
    let id = fresh_id();
    let (late, next) = (Process::open(subject, id).await, Process::open(subject, id).await);
    late.claim_free(7).await;
    assert_eq!(next.claim(8).await, Claimed::Claimed { replaced: Some(token(7)) });
    for outcome in [payload("late"), Outcome::WithoutPayload] {
        assert_eq!(late.complete(7, &outcome).await, Written::Stale);
    }
    Process::assert_in_flight(&next.peek().await, 8);
    assert_eq!(next.complete(8, &payload("next")).await, Written::Yes);
    assert_eq!(late.complete(7, &payload("next")).await, Written::Stale);
    assert_eq!(next.peek().await, Found::Done("next".into()));
}

/// No claim, or one under another token: stale, and nothing is there that was not before.
pub async fn a_completion_without_a_claim_writes_nothing(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await;
    assert_eq!(process.complete(7, &payload("done")).await, Written::Stale);
    assert_eq!(process.peek().await, Found::Absent);
    process.claim_free(7).await;
    for value in [6, 8] {
        assert_eq!(process.complete(value, &payload("done")).await, Written::Stale);
    }
    Process::assert_in_flight(&process.peek().await, 7);
}

/// After an abort all is as if nothing had been asked: any fingerprint, any token.
pub async fn an_abort_makes_room_for_a_new_claim(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    assert_eq!(process.abort(7).await, Written::Yes);
    assert_eq!(process.peek().await, Found::Absent);
    process.with_fingerprint(b'g').refusing().claim_free(8).await;
}

/// Where there is nothing left, an abort has nothing to do.
pub async fn an_abort_whose_reply_was_lost_is_answered_the_same_when_it_asks_again(
    subject: &dyn RecordSubject,
) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    for _ in 0..3 {
        assert_eq!(process.abort(7).await, Written::Yes);
    }
}

/// An abort neither removes an execution under another token nor an outcome.
pub async fn an_abort_leaves_what_is_not_its_own_in_flight_alone(subject: &dyn RecordSubject) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    assert_eq!(process.abort(6).await, Written::Stale);
    // As after the first of two aborts: there is nothing of 8.
    assert_eq!(process.abort(8).await, Written::Yes);
    Process::assert_in_flight(&process.peek().await, 7);
    assert_eq!(process.complete(7, &payload("done")).await, Written::Yes);
    for value in [6, 7, 8] {
        assert_eq!(process.abort(value).await, Written::Stale);
    }
    assert_eq!(process.peek().await, Found::Done("done".into()));
}

/// That an earlier execution left no outcome is not forgotten because a later one was aborted.
pub async fn an_abort_after_a_takeover_puts_back_what_it_took_over_from(
    subject: &dyn RecordSubject,
) {
    let process = Process::open(subject, fresh_id()).await;
    process.claim_free(7).await;
    for (value, before) in [(8, 7), (9, 8), (10, 9)] {
        assert_eq!(process.claim(value).await, Claimed::Claimed { replaced: Some(token(before)) });
    }
    // The last two of a row are known, and the first.
    for (value, back) in [(10, 9), (9, 7)] {
        for _ in 0..2 {
            assert_eq!(process.abort(value).await, Written::Yes);
            Process::assert_in_flight(&process.peek().await, back);
        }
        let refused = process.refusing().claim(20).await;
        assert!(matches!(refused, Claimed::Unknown { .. }), "{refused:?}");
    }
    assert_eq!(process.with_fingerprint(b'g').peek().await, Found::Mismatch);
    assert_eq!(process.complete(7, &payload("late")).await, Written::Yes);
    assert_eq!(process.peek().await, Found::Done("late".into()));
}

/// A claim, or a repetition of it, that arrives after the abort puts nothing on record. Looks do
/// not see the mark, and it keeps nobody out who comes later.
pub async fn a_claim_that_arrives_after_its_abort_is_not_taken(subject: &dyn RecordSubject) {
    for claimed_before in [false, true] {
        let process = Process::open(subject, fresh_id()).await;
        if claimed_before {
            process.claim_free(7).await;
        }
        assert_eq!(process.abort(7).await, Written::Yes);
        assert_eq!(process.abort(5).await, Written::Yes);
        for value in [6, 7] {
            let claimed = process.claim(value).await;
            assert!(matches!(claimed, Claimed::InFlight { .. }), "{claimed:?}");
            assert_eq!(process.complete(value, &payload("done")).await, Written::Stale);
            assert_eq!(process.with_fingerprint(b'g').peek().await, Found::Absent);
        }
        process.refusing().claim_free(8).await;
        // Nor where another one is put back.
        assert_eq!(process.claim(9).await, Claimed::Claimed { replaced: Some(token(8)) });
        assert_eq!(process.abort(9).await, Written::Yes);
        let claimed = process.claim(9).await;
        assert!(matches!(claimed, Claimed::InFlight { .. }), "{claimed:?}");
        Process::assert_in_flight(&process.peek().await, 8);
        assert_eq!(process.claim(10).await, Claimed::Claimed { replaced: Some(token(8)) });
    }
}

/// Either the completion comes first, and the claim is given it; or the claim does, and the
/// completion is stale.
pub async fn of_a_completion_and_a_takeover_at_once_one_wins(subject: &dyn RecordSubject) {
    for _ in 0..20 {
        let id = fresh_id();
        let (a, b) = (Process::open(subject, id).await, Process::open(subject, id).await);
        a.claim_free(7).await;
        let outcome = payload("a");
        let completing = tokio::spawn(async move { a.complete(7, &outcome).await });
        let claimed = b.claim(8).await;
        let written = completing.await.expect("a completion does not panic");
        match (written, claimed) {
            (Written::Yes, Claimed::Done(bytes)) => {
                assert_eq!(bytes, "a");
                assert_eq!(b.peek().await, Found::Done("a".into()));
            }
            (Written::Stale, Claimed::Claimed { replaced }) => {
                assert_eq!(replaced, Some(token(7)));
                Process::assert_in_flight(&b.peek().await, 8);
            }
            both => panic!("{both:?}"),
        }
    }
}
