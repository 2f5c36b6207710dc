//! The configuration of a layer, shared by the services it makes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode, response};
use lock_core::idempotency::Idempotency;

use super::cause::Cause;
use super::headers::Replayed;
use super::outcome::grpc_status;
use super::places::{Bounds, Places};
use crate::OnLost;
use crate::answer::Answers;

/// The fate of a request that cannot be protected, as the lock service or the record store is out
/// of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnStoreDown {
    /// It is answered with 503 `idempotency_unavailable` (default).
    #[default]
    FailClosed,
    /// The handler runs without lock, token and record, and a retry may run it again. Its request
    /// carries no fencing token, not even that of a lock layer around this one.
    ///
    /// Nor is it looked after in other ways: it is dropped when its client goes away, whatever
    /// [`OnDisconnect`] says, and its panic is not caught here.
    FailOpen,
}

/// The fate of a handler whose client goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// It runs on, in a task, and its response is stored for the retry (default). So is one whose
    /// head the client has seen, as long as its body is read for its record.
    ///
    /// A concurrency limit outside of the layer counts responses that somebody waits for, and no
    /// handlers that run on. So clients that come and go could start more than it allows. Bound how
    /// long one may take by the lock of the engine, as with
    /// `engine.with_lock_options(LockOptions::new().with_hold_limit(limit))`
    /// ([`with_hold_limit`](lock_core::LockOptions::with_hold_limit)). It is stopped then as one
    /// that lost its lock, and its outcome is unknown.
    #[default]
    Finish,
    /// It is dropped at its next await, and its record with it: a retry runs it again. Where
    /// [`OnUnknown::Refuse`](lock_core::idempotency::OnUnknown::Refuse) was chosen the record
    /// stays, and a retry is refused. Only for handlers that may be cut anywhere.
    Abort,
}

/// The responses that are stored.
#[derive(Clone)]
pub(super) enum Stores {
    /// [`stored_by_default`], with an eye on gRPC, which answers everything with 200: an error is
    /// stored if the same request would meet it again. So not what a caller that may not be there any
    /// more, a deadline, a limit or an outage has brought about.
    ByDefault,
    /// Those whose head this takes.
    If(Arc<dyn Fn(&response::Parts) -> bool + Send + Sync>),
}

impl Stores {
    pub(super) fn takes(&self, head: &response::Parts) -> bool {
        match self {
            Self::ByDefault => {
                let grpc = grpc_status(&head.headers);
                grpc.is_none_or(|code| self.takes_status(code)) && stored_by_default(head.status)
            }
            Self::If(takes) => takes(head),
        }
    }

    /// The same of a status of gRPC that its response has not in its head.
    pub(super) fn takes_status(&self, code: u32) -> bool {
        match self {
            // OK, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE
            Self::ByDefault => matches!(code, 0 | 3 | 5 | 6 | 9 | 11),
            Self::If(_) => true,
        }
    }
}

/// The options of a layer, and what its clones and services share.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) engine: Idempotency,
    pub(super) header: HeaderName,
    pub(super) required: bool,
    pub(super) methods: Arc<[Method]>,
    pub(super) fingerprinted: Vec<HeaderName>,
    pub(super) request_bytes_max: usize,
    pub(super) request_wait: Duration,
    pub(super) response_bytes_max: usize,
    pub(super) response_wait: Duration,
    pub(super) stores: Stores,
    pub(super) replayed: Replayed,
    pub(super) bounds: Bounds,
    pub(super) places: Arc<Places>,
    pub(super) on_store_down: OnStoreDown,
    pub(super) on_disconnect: OnDisconnect,
    pub(super) on_lost: OnLost,
    pub(super) answers: Answers<Cause>,
}

/// Whether a response is stored unless [`store_if`](super::IdempotencyLayer::store_if) says
/// otherwise. 2xx, 3xx and the 4xx that the same request would meet again are. 401, 403, 407, 408,
/// 409, 421, 423, 424, 425, 429 and 5xx are not: a retry runs the handler again.
#[must_use]
pub fn stored_by_default(status: StatusCode) -> bool {
    // On who asks, over which connection, and in which state everything else is.
    let depends_on_the_moment =
        matches!(status.as_u16(), 401 | 403 | 407..=409 | 421 | 423..=425 | 429);
    !depends_on_the_moment && matches!(status.as_u16(), 200..=499)
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("engine", &self.engine)
            .field("header", &self.header)
            .field("required", &self.required)
            .field("methods", &self.methods)
            .field("fingerprinted", &self.fingerprinted)
            .field("request_bytes_max", &self.request_bytes_max)
            .field("request_wait", &self.request_wait)
            .field("response_bytes_max", &self.response_bytes_max)
            .field("response_wait", &self.response_wait)
            .field("replayed", &self.replayed)
            .field("bounds", &self.bounds)
            .field("on_store_down", &self.on_store_down)
            .field("on_disconnect", &self.on_disconnect)
            .field("on_lost", &self.on_lost)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}
