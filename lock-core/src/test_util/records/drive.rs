//! The verbs as the properties use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::subject::RecordSubject;
use crate::ground::clock;
use crate::idempotency::{
    ClaimRecord, Claimed, Fingerprint, Found, OnUnknown, Outcome, RecordId, RecordStore, Written,
};
use crate::test_util::answered::answered;
use crate::token::FencingToken;

/// Long enough for whatever a property does in between.
pub(super) const LONG: Duration = Duration::from_secs(600);

pub(super) fn token(value: u64) -> FencingToken {
    FencingToken::from_stored(value)
}

pub(super) fn payload(text: &str) -> Outcome {
    Outcome::Payload(Bytes::copy_from_slice(text.as_bytes()))
}

pub(super) fn fingerprint(text: u8) -> Fingerprint {
    Fingerprint::new([text; 32])
}

/// An id that no other property uses, in this run or another.
pub(super) fn fresh_id() -> RecordId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&clock::random_u128().to_be_bytes());
    bytes[16..24].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    RecordId::from_bytes(bytes)
}

/// One process at the record of one id.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) store: Arc<dyn RecordStore>,
    pub(super) id: RecordId,
    fingerprint: Fingerprint,
    on_unknown: OnUnknown,
    ttl: Duration,
}

impl Process {
    pub(super) async fn open(subject: &dyn RecordSubject, id: RecordId) -> Self {
        let store = subject.open().await;
        let on_unknown = OnUnknown::Reexecute;
        Self { store, id, fingerprint: fingerprint(b'f'), on_unknown, ttl: LONG }
    }

    /// The same process at another record.
    pub(super) fn elsewhere(&self) -> Self {
        Self { id: fresh_id(), ..self.clone() }
    }

    pub(super) fn with_fingerprint(&self, text: u8) -> Self {
        Self { fingerprint: fingerprint(text), ..self.clone() }
    }

    pub(super) fn refusing(&self) -> Self {
        Self { on_unknown: OnUnknown::Refuse, ..self.clone() }
    }

    pub(super) fn with_ttl(&self, ttl: Duration) -> Self {
        Self { ttl, ..self.clone() }
    }

    pub(super) async fn peek(&self) -> Found {
        self.store.peek(self.id, self.fingerprint).await.expect("a peek is answered")
    }

    /// Under the same token it is the same claim, however often it is asked.
    pub(super) async fn claim(&self, value: u64) -> Claimed {
        let record = self.record(value);
        answered!("a claim", self.store.claim(self.id, &record))
    }

    pub(super) fn record(&self, value: u64) -> ClaimRecord {
        ClaimRecord {
            fingerprint: self.fingerprint,
            token: token(value),
            ttl: self.ttl,
            on_unknown: self.on_unknown,
        }
    }

    /// Claims what must be free.
    pub(super) async fn claim_free(&self, value: u64) {
        assert_eq!(self.claim(value).await, Claimed::Claimed { replaced: None });
    }

    pub(super) async fn complete(&self, value: u64, outcome: &Outcome) -> Written {
        let completed = self.store.complete(self.id, token(value), outcome, self.ttl);
        completed.await.expect("a completion is answered")
    }

    pub(super) async fn abort(&self, value: u64) -> Written {
        self.store.abort(self.id, token(value)).await.expect("an abort is answered")
    }

    /// Waits until the record is gone, at most for its life and the slack.
    pub(super) async fn is_gone_within(&self, time: Duration) {
        let begun = clock::now();
        while self.peek().await != Found::Absent {
            let waited = clock::now() - begun;
            assert!(waited < time, "after {waited:?} there still is {:?}", self.peek().await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[track_caller]
    pub(super) fn assert_in_flight(found: &Found, value: u64) {
        let in_flight = matches!(found, Found::InFlight { token: of, .. } if *of == token(value));
        assert!(in_flight, "{found:?} is not in flight under {value}");
    }
}
