//! What a layer was told, shared by the services it makes.

use std::fmt;
use std::sync::Arc;

use http::Response;
use lock_core::{LockClient, LockOptions};
use tower::retry::budget::{Budget, TpsBudget};

use super::arrival::{Arrivals, Caps};
use super::body::LockBody;
use crate::answer::{Cause, CustomBody, Refusal, Statuses, Wire};

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

/// What retries are paid from.
#[derive(Clone)]
pub(super) struct RetryBudget {
    budget: Arc<TpsBudget>,
    /// Made once, not for each request.
    pay: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl RetryBudget {
    pub(super) fn new(budget: Arc<TpsBudget>) -> Self {
        let purse = Arc::clone(&budget);
        Self { budget, pay: Arc::new(move || purse.withdraw()) }
    }

    /// A request deposits; each of its retries calls what this returns.
    pub(super) fn deposit(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        self.budget.deposit();
        Arc::clone(&self.pay)
    }
}

/// The caller's own answer.
pub(super) type OnBusy = Arc<dyn Fn(&Refusal<'_>) -> Response<CustomBody> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Config {
    pub(super) locks: LockClient,
    pub(super) options: LockOptions,
    pub(super) caps: Caps,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) retry_budget: RetryBudget,
    pub(super) statuses: Statuses<Cause>,
    pub(super) on_busy: Option<OnBusy>,
    pub(super) hold_until: HoldUntil,
    pub(super) on_lost: OnLost,
    pub(super) detach: bool,
}

impl Config {
    /// Answers a request that came over `wire`.
    pub(super) fn answer<B>(&self, wire: Wire, refusal: Refusal<'_>) -> Response<LockBody<B>> {
        let reply = refusal.reply.over(wire, self.statuses.of(refusal.cause));
        let refusal = Refusal { reply, ..refusal };
        tracing::debug!(
            code = refusal.code(),
            waited_ms = refusal.waited.as_millis() as u64,
            tries = refusal.tries,
            "a request is answered by the lock layer"
        );
        #[cfg(feature = "metrics")]
        crate::metrics::refused(refusal.code());
        let response = match &self.on_busy {
            Some(on_busy) => on_busy(&refusal).map(LockBody::custom),
            None => refusal.default_response().map(LockBody::answer),
        };
        refusal.reply.mark(response)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("locks", &self.locks)
            .field("options", &self.options)
            .field("caps", &self.caps)
            .field("retry_budget", &self.retry_budget.budget)
            .field("statuses", &self.statuses)
            .field("on_busy", &self.on_busy.is_some())
            .field("hold_until", &self.hold_until)
            .field("on_lost", &self.on_lost)
            .field("detach", &self.detach)
            .finish_non_exhaustive()
    }
}
