//! Spans for those who watch a service, at DEBUG, and the counter of requests. As those of a lock
//! they are never entered, so none keeps another open. Ids of records are hashes, so they are shown.

use tracing::field::Empty;
use tracing::{Span, debug_span};

use super::begun::Begun;
use super::error::BeginError;
use crate::labels::Repeat;
use crate::records::RecordId;
use crate::token::FencingToken;

/// One request, until it is known what is to be done about it.
pub(super) struct Request(Span);

impl Request {
    pub(super) fn begins(id: RecordId) -> Self {
        Self(debug_span!(
            target: "lock_core",
            "idempotency.begin",
            idempotency.id = %id,
            idempotency.outcome = Empty,
        ))
    }

    pub(super) fn ended(mut self, begun: &Result<Begun, BeginError>) {
        let outcome = match begun {
            Ok(Begun::Run(_)) => Repeat::Executed,
            Ok(Begun::Replay(_)) => Repeat::Replayed,
            Ok(Begun::InFlight { .. }) => Repeat::InFlight,
            Ok(Begun::Mismatch) => Repeat::Mismatch,
            Ok(Begun::WithoutPayload) => Repeat::WithoutPayload,
            Ok(Begun::Unknown { .. }) => Repeat::Unknown,
            Err(_) => Repeat::Failed,
        };
        record(&std::mem::replace(&mut self.0, Span::none()), outcome.as_str());
        #[cfg(feature = "metrics")]
        crate::metrics::series::begun(outcome);
    }
}

/// It was cancelled, if it has not ended before.
impl Drop for Request {
    fn drop(&mut self) {
        record(&self.0, "cancelled");
    }
}

/// One execution, from its claim until its lock is let go.
#[derive(Debug)]
pub(super) struct Run(Span);

impl Run {
    pub(super) fn begins(id: RecordId, token: FencingToken) -> Self {
        Self(debug_span!(
            target: "lock_core",
            "idempotency.execution",
            idempotency.id = %id,
            idempotency.outcome = Empty,
            lock.token = token.get(),
        ))
    }

    pub(super) fn ended(&self, outcome: &'static str) {
        record(&self.0, outcome);
    }
}

fn record(span: &Span, outcome: &'static str) {
    // A field is looked up by its name even if nobody listens.
    if !span.is_disabled() {
        span.record("idempotency.outcome", outcome);
    }
}
