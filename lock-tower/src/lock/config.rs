//! What a layer was told, shared by the services it makes.

use std::fmt;
use std::sync::Arc;

use http::{Response, StatusCode};
use lock_core::{LockClient, LockOptions};
use tower::retry::budget::TpsBudget;

use super::arrival::{Arrivals, Caps};
use super::body::LockBody;
use crate::answer::{CustomBody, Refusal};

/// How long a request keeps its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HoldUntil {
    /// Until the handler has given the head of its response (default).
    #[default]
    ResponseHead,
    /// Until the body of the response was sent to its end, or dropped. A slow reader then keeps
    /// the lock: set a [`hold_limit`](crate::LockLayer::hold_limit).
    ResponseBody,
}

/// What happens when the lock is lost while the handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLost {
    /// The handler is dropped at its next await and the answer is 503 `lock_lost`; a body under
    /// [`HoldUntil::ResponseBody`] ends with an error (default).
    #[default]
    Cancel,
    /// The handler runs on. It can watch [`LockHandle::lost`](lock_core::LockHandle::lost), and
    /// its writes are refusable by the fencing token.
    Report,
}

/// The caller's own answer.
pub(super) type OnBusy = Arc<dyn Fn(&Refusal<'_>) -> Response<CustomBody> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Config {
    pub(super) locks: LockClient,
    /// `retries` counts those of the layer; each acquire of lock-core is a single try.
    pub(super) options: LockOptions,
    pub(super) caps: Caps,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) retry_budget: Arc<TpsBudget>,
    pub(super) busy_status: StatusCode,
    pub(super) on_busy: Option<OnBusy>,
    pub(super) hold_until: HoldUntil,
    pub(super) on_lost: OnLost,
    pub(super) detach: bool,
}

impl Config {
    pub(super) fn answer<B>(&self, refusal: &Refusal<'_>) -> Response<LockBody<B>> {
        tracing::debug!(
            code = refusal.code,
            waited_ms = refusal.waited.as_millis() as u64,
            tries = refusal.tries,
            "a request is answered by the lock layer"
        );
        #[cfg(feature = "metrics")]
        crate::metrics::refused(refusal.code);
        match &self.on_busy {
            Some(on_busy) => on_busy(refusal).map(LockBody::custom),
            None => refusal.default_response().map(LockBody::answer),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("locks", &self.locks)
            .field("options", &self.options)
            .field("caps", &self.caps)
            .field("retry_budget", &self.retry_budget)
            .field("busy_status", &self.busy_status)
            .field("on_busy", &self.on_busy.is_some())
            .field("hold_until", &self.hold_until)
            .field("on_lost", &self.on_lost)
            .field("detach", &self.detach)
            .finish_non_exhaustive()
    }
}
