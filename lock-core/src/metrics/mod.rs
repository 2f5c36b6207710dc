//! The metrics of this crate, through the facade of the crate `metrics`. Feature `metrics`.
//!
//! [`names`] has each name. [`METRICS`] also has its labels with all their values. No label is
//! open: `member` has only those that the URL of a quorum lists, and `name` the names that the
//! application's source gives to its acquires, the first 1,000 of them. No label is the key, so a
//! service with a million keys has as many series as one with ten.
//!
//! Nothing has to be set up here. Install a recorder before the first lock is taken, as a gauge
//! that went up unseen goes below zero later. Call [`describe`] once for the help texts.
//!
//! Histograms are in seconds. A Prometheus exporter needs buckets for them, as summaries of
//! several processes cannot be added up: [`SECONDS_BUCKETS`] for all names that end in `_seconds`.

pub(crate) mod named;
pub mod names;
pub(crate) mod series;

use metrics::{Unit, with_recorder};

use crate::labels::{HANDOFFS, LOST, RefusedBy, Repeat, WaitEnd};

/// Upper bounds in seconds that suit all histograms of this crate: from a hand-off inside a
/// process to a wait that is given up.
pub const SECONDS_BUCKETS: &[f64] = &[
    0.000_01, 0.000_1, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
    4.0, 8.0, 16.0, 32.0,
];

/// The kind of a metric, as a recorder has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Only goes up.
    Counter,
    /// The value of the moment, over all clients of the process.
    Gauge,
    /// Durations in seconds.
    Histogram,
}

/// One name, with all that a dashboard or an exporter wants to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind, as a recorder has it.
    pub kind: Kind,
    /// Its labels, and every value that each may have; none are listed for `member`, which has the
    /// names of the members of the quorums in this process, and for `name`, which has those of
    /// acquires. An acquire without a name has no such label.
    pub labels: &'static [(&'static str, &'static [&'static str])],
    /// For people.
    pub description: &'static str,
}

impl Metric {
    /// Tells the recorder that is installed now.
    pub fn describe(&self) {
        let (name, text) = (self.name.into(), self.description.into());
        with_recorder(|recorder| match self.kind {
            Kind::Counter => recorder.describe_counter(name, Some(Unit::Count), text),
            Kind::Gauge => recorder.describe_gauge(name, Some(Unit::Count), text),
            Kind::Histogram => recorder.describe_histogram(name, Some(Unit::Seconds), text),
        });
    }
}

/// All metrics of this crate; those of idempotency are emitted with that feature.
pub const METRICS: &[Metric] = &[
    Metric {
        name: names::WAIT_SECONDS,
        kind: Kind::Histogram,
        labels: &[("name", &[]), ("outcome", &WaitEnd::ALL)],
        description: "How long an acquire took, from its first poll to its end",
    },
    Metric {
        name: names::HOLD_SECONDS,
        kind: Kind::Histogram,
        labels: &[("name", &[])],
        description: "How long a key was held by one guard",
    },
    Metric {
        name: names::HANDOFFS_TOTAL,
        kind: Kind::Counter,
        labels: &[("kind", &HANDOFFS)],
        description: "Grants that came straight from another holder",
    },
    Metric {
        name: names::REFUSED_TOTAL,
        kind: Kind::Counter,
        labels: &[("name", &[]), ("reason", &RefusedBy::ALL)],
        description: "Acquires that were refused without using up their wait",
    },
    Metric {
        name: names::LOST_TOTAL,
        kind: Kind::Counter,
        labels: &[("name", &[]), ("reason", &LOST)],
        description: "Holds that were over before their release",
    },
    Metric {
        name: names::RENEWALS_TOTAL,
        kind: Kind::Counter,
        labels: &[("outcome", &["held", "lost", "fault"])],
        description: "Renewals of held locks",
    },
    Metric {
        name: names::STORE_SECONDS,
        kind: Kind::Histogram,
        labels: &[
            ("verb", &["attempt", "renew", "withdraw"]),
            ("outcome", &["granted", "blocked", "held", "lost", "released", "not_held", "fault"]),
        ],
        description: "How long a request to the store took",
    },
    Metric {
        name: names::WAITERS,
        kind: Kind::Gauge,
        labels: &[],
        description: "Acquires that stand in line in this process now",
    },
    Metric {
        name: names::HELD,
        kind: Kind::Gauge,
        labels: &[],
        description: "Guards that are held in this process now",
    },
    Metric {
        name: names::MEMBER_READY,
        kind: Kind::Gauge,
        labels: &[("member", &[])],
        description: "Whether a member of a quorum may be asked for locks",
    },
    Metric {
        name: names::MEMBER_QUARANTINES_TOTAL,
        kind: Kind::Counter,
        labels: &[("member", &[])],
        description: "Members of a quorum that were found without their data",
    },
    Metric {
        name: names::MEMBER_REPAIRS_TOTAL,
        kind: Kind::Counter,
        labels: &[("member", &[])],
        description: "Members of a quorum that were let grant again",
    },
    Metric {
        name: names::MEMBER_SECONDS,
        kind: Kind::Histogram,
        labels: &[("member", &[])],
        description: "How long a request to a member of a quorum took",
    },
    Metric {
        name: names::IDEMPOTENCY_REQUESTS_TOTAL,
        kind: Kind::Counter,
        labels: &[("outcome", &Repeat::ALL)],
        description: "Requests under an idempotency key",
    },
    Metric {
        name: names::IDEMPOTENCY_STALE_TOTAL,
        kind: Kind::Counter,
        labels: &[],
        description: "Executions whose result came too late and was refused",
    },
];

/// Tells the recorder that is installed now what each metric of this crate is.
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
}
