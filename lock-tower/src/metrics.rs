//! The metrics of each request, through the facade of the crate `metrics`. Feature `metrics`; it
//! turns on that of lock-core too, whose [`metrics`](mod@lock_core::metrics) are those of the locks
//! themselves.
//!
//! No label is the key, the path or anything else that a client chooses.

use std::time::Duration;

use lock_core::metrics::{Kind, Metric};
use metrics::{Key, Label, Level, Metadata, with_recorder};

/// The names, as a recorder sees them.
pub mod names {
    /// Requests that a layer answered by itself. Label `code`: that of the problem document, see
    /// [`answer`](crate::answer) and the module `idempotency`; a key extractor and a scope closure
    /// of your own may add some.
    pub const REFUSED_TOTAL: &str = "lock_http_refused_total";
    /// How long a request that was let in waited for its lock, all tries and the pauses between
    /// them. Label `outcome`: `granted`, `refused`, or `cancelled` if the client went away.
    pub const WAIT_SECONDS: &str = "lock_http_wait_seconds";
}

/// All metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric {
        name: names::REFUSED_TOTAL,
        kind: Kind::Counter,
        labels: &[("code", CODES)],
        description: "Requests that a layer answered by itself",
    },
    Metric {
        name: names::WAIT_SECONDS,
        kind: Kind::Histogram,
        labels: &[("outcome", WAIT_OUTCOMES)],
        description: "How long a request waited for its lock, all tries together",
    },
];

/// The codes that mean the lock or the record; a request without a good key has more.
const CODES: &[&str] = &[
    "lock_timeout",
    "lock_overloaded",
    "lock_waiters_per_key",
    "lock_waiters",
    "lock_unavailable",
    "lock_not_replicated",
    "lock_lost",
    "lock_closed",
    "lock_misconfigured",
    "lock_upgrade_unheld",
    "lock_key_rejected",
    "lock_key_not_canonical",
    "idempotency_in_flight",
    "idempotency_key_reused",
    "idempotency_response_not_stored",
    "idempotency_outcome_unknown",
    "idempotency_lost",
    "idempotency_not_committed",
    "idempotency_handler_panicked",
    "idempotency_waiters",
    "idempotency_waiters_per_key",
    "idempotency_waiters_per_scope",
    "idempotency_waiting_bytes",
    "idempotency_overloaded",
    "idempotency_unavailable",
    "idempotency_record_unreadable",
    "idempotency_misconfigured",
    "idempotency_closed",
];

const WAIT_OUTCOMES: &[&str] = &["granted", "refused", "cancelled"];

/// Tells the recorder that is installed now what each metric of this crate and of lock-core is.
pub fn describe() {
    lock_core::metrics::describe();
    METRICS.iter().for_each(Metric::describe);
}

static METADATA: Metadata<'static> = Metadata::new("lock_tower", Level::INFO, Some(module_path!()));

pub(crate) fn refused(code: &'static str) {
    let key = Key::from_parts(names::REFUSED_TOTAL, vec![Label::from_static_parts("code", code)]);
    with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(1));
}

pub(crate) fn waited(outcome: &'static str, took: Duration) {
    let labels = vec![Label::from_static_parts("outcome", outcome)];
    let key = Key::from_parts(names::WAIT_SECONDS, labels);
    with_recorder(|recorder| recorder.register_histogram(&key, &METADATA).record(took));
}
