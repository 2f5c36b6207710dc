//! Values that are no records.

use super::drive::{Process, fresh_id, payload, token};
use super::subject::RecordSubject;
use crate::backend::{Fault, FaultKind};
use crate::idempotency::Written;

/// A record of another version, a truncated one, one with a broken field, a value of another
/// kind: each verb refuses it, for good, and none overwrites it.
pub async fn what_is_no_record_is_a_fault_and_is_left_as_it_was(subject: &dyn RecordSubject) {
    for completed in [false, true] {
        for n in 0.. {
            let process = Process::open(subject, fresh_id()).await;
            process.claim_free(7).await;
            if completed {
                assert_eq!(process.complete(7, &payload("done")).await, Written::Yes);
            }
            let Some(what) = subject.damage(process.id, n).await else { break };
            let before = subject.dump(process.id).await;
            refused_by_every_verb(&process, &what).await;
            assert_eq!(subject.dump(process.id).await, before, "{what} was written to");
        }
    }
}

async fn refused_by_every_verb(process: &Process, what: &str) {
    let (store, id) = (&process.store, process.id);
    let record = process.record(7);
    foreign(store.peek(id, record.fingerprint).await, "peek", what);
    for value in [6, 7, 8] {
        foreign(store.claim(id, &process.record(value)).await, "claim", what);
        let outcome = payload("done");
        let completed = store.complete(id, token(value), &outcome, record.ttl).await;
        foreign(completed, "complete", what);
        foreign(store.abort(id, token(value)).await, "abort", what);
    }
}

#[track_caller]
fn foreign<T: std::fmt::Debug>(answer: Result<T, Fault>, verb: &str, what: &str) {
    match answer {
        Err(fault) if fault.kind() == FaultKind::ForeignValue => {}
        other => panic!("{verb} of {what}: {other:?}"),
    }
}
