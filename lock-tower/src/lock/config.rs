//! The configuration of a layer, shared by the services it makes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use lock_core::{LockClient, LockOptions};
use tower::retry::budget::{Budget, TpsBudget};

use crate::answer::{Answers, Cause};
use crate::permits::Permits;

/// How long a request keeps its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HoldUntil {
    /// Until the handler has given the head of its response (default).
    #[default]
    ResponseHead,
    /// Until the body of the response was sent to its end, or dropped. A slow reader then keeps
    /// the lock: set a [`hold_limit`](crate::LockLayer::hold_limit).
    ///
    /// A handler that upgrades its connection, as to a web socket, takes the lock along with
    /// [`UpgradeLock`](crate::UpgradeLock), to the end of that connection. Without it the upgrade is
    /// refused with 500 `lock_upgrade_unheld`: a response that switches protocols has no body to
    /// hold a lock until.
    ResponseBody,
}

/// The fate of a handler whose lock is lost while it runs.
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

/// The budget that retries are paid from.
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

    /// A request was let in.
    pub(super) fn deposit(&self) {
        self.budget.deposit();
    }

    /// The closure that each retry calls, to pay for itself.
    pub(super) fn pay(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        Arc::clone(&self.pay)
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.budget.fmt(f)
    }
}

/// The predicate of the requests that share their key.
#[derive(Clone)]
pub(super) struct SharedIf(Arc<dyn Fn(&Parts) -> bool + Send + Sync>);

impl SharedIf {
    pub(super) fn new(predicate: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(predicate))
    }
}

impl fmt::Debug for SharedIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedIf")
    }
}

/// The options of a layer, and what its clones and services share.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) locks: LockClient,
    pub(super) options: LockOptions,
    /// Those that it holds for share their key, whatever `options` say.
    pub(super) shared_if: Option<SharedIf>,
    pub(super) waiters_per_key: usize,
    pub(super) waiters: usize,
    /// Those that wait have one place each, of this layer and its clones.
    pub(super) places: Arc<Permits>,
    pub(super) retry_budget: RetryBudget,
    pub(super) answers: Answers<Cause>,
    pub(super) hold_until: HoldUntil,
    pub(super) on_lost: OnLost,
    pub(super) detach: bool,
}

impl Config {
    /// The options of this request, which is given back as it was.
    pub(super) fn options_for<B>(&self, request: Request<B>) -> (LockOptions, Request<B>) {
        let Some(SharedIf(shared_if)) = &self.shared_if else { return (self.options, request) };
        let (head, body) = request.into_parts();
        let options = match shared_if(&head) {
            // Those who read are let in beside each other, at any time.
            true => self.options.shared().with_min_hold(Duration::ZERO),
            false => self.options,
        };
        (options, Request::from_parts(head, body))
    }
}
