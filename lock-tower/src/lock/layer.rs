//! The layer and its options.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body;
use lock_core::options::Fairness;
use lock_core::{LockClient, Mode};
use tower::retry::budget::TpsBudget;
use tower_layer::Layer;

use super::config::{Config, HoldUntil, OnLost, RetryBudget, SharedIf};
use super::service::LockService;
use crate::BoxError;
use crate::answer::{Answers, Cause, Refusal};

/// Stands in a [`LockLayer`] for a key extractor that was not given yet, and serves no request; see
/// [`LockLayer::key`].
#[derive(Debug, Clone, Copy)]
pub struct NoKey;

/// Runs the requests of one key one at a time, over all processes that share the lock store; or at
/// most [so many](Self::permits) at a time, or those that [read](Self::shared_if) together.
///
/// | option | default | bounds |
/// |---|---|---|
/// | [`key`](Self::key) | none, must be given | |
/// | [`permits`](Self::permits), [`shared_if`](Self::shared_if) or [`shared`](Self::shared) | none: one request at a time | 1 to 1,024 permits |
/// | [`wait`](Self::wait) | 2 s | 0 to 24 h |
/// | [`retries`](Self::retries) | 1 | at most 1,000 |
/// | [`admission`](Self::admission) | on | |
/// | [`lease`](Self::lease), [`hold_limit`](Self::hold_limit), [`linger`](Self::linger), [`min_hold`](Self::min_hold), [`fairness`](Self::fairness), [`replicas`](Self::replicas), [`name`](Self::name) | those of the client | as [`LockOptions`](lock_core::LockOptions) has them |
/// | [`waiters_per_key`](Self::waiters_per_key) | 1,000 | at least 1 |
/// | [`waiters`](Self::waiters) | 10,000 | at least 1 |
/// | [`retry_budget`](Self::retry_budget) | 10 per s and 20 % of the requests of the last 10 s | |
/// | [`status`](Self::status) | those of [`answer`](crate::answer) | 400 to 599 |
/// | [`hold_until`](Self::hold_until) | the head of the response | |
/// | [`on_lost`](Self::on_lost) | stop the handler, 503 | |
/// | [`detach_on_disconnect`](Self::detach_on_disconnect) | off | |
///
/// Clones of a layer, and all services that it makes, count [`waiters`](Self::waiters) together and
/// share the retry budget. An option out of its bounds is answered with 500 `lock_misconfigured`.
///
/// # Beside other layers
///
/// Layers of tower, tower-http and tower_governor stand outside and inside of it, in one
/// `ServiceBuilder` or one by one on a router. Where they belong:
///
/// | beside it | where | why |
/// |---|---|---|
/// | authentication, validation of requests, rate limits (governor), CORS, body limits | outside | who is refused takes no lock and no place in line; a preflight waits for nobody; a browser may read refusals of this layer only through CORS outside |
/// | trace, request ids, sensitive and response headers | outside | the wait and the refusals are seen and marked, too. A trace inside tells the time of the handler alone |
/// | catch-panic | either | the lock is given up in both |
/// | [`IdempotencyLayer`](crate::IdempotencyLayer) | outside | a replay waits for no lock |
/// | a timeout for the client (`TimeoutLayer`) | outside | it counts the wait, so make it longer than [`wait`](Self::wait) `* (1 +` [`retries`](Self::retries)`)` and the handler together, or clients get its answer and not the one with `Retry-After`. It cuts a waiter out of the line, and a handler, unless that is [detached](Self::detach_on_disconnect) |
/// | a timeout for the handler (`TimeoutLayer`) | inside | it begins when the lock is held, and bounds how long that is. [`hold_limit`](Self::hold_limit) does so whatever blocks |
/// | a timeout of response bodies | either | under [`HoldUntil::ResponseBody`] a client that does not read keeps the lock until it |
/// | a limit of concurrency in this process, load shedding | outside | it counts those who wait, which are bounded then. Inside, a request has its readiness from before the wait: a limit counts who waits all the same, and `load_shed` judges the moment when the request came. With a `HandleErrorLayer` of its own inside they judge the moment when it runs. axum may make a service for each request: `GlobalConcurrencyLimitLayer` counts over all |
/// | web sockets, and other upgrades | inside, with [`HoldUntil::ResponseBody`] and [`UpgradeLock`](crate::UpgradeLock) in the handler | with the default the lock ends as the socket begins; without `UpgradeLock` the upgrade is refused |
/// | compression of responses | outside | either works; inside it is done under the lock |
/// | decompression, limits and timeouts of request bodies | outside | a key out of the body ([`json_pointer`](crate::key::json_pointer)) is read behind them |
/// | normalising paths | around the whole router | as always with axum: routes are found before a layer of the router runs |
///
/// Two need a word of help in one `ServiceBuilder`, because they know one type of body only; one
/// by one on a router none does:
///
/// - tower_governor answers with `axum::body::Body`. Between it and this layer stands
///   `.map_response(|response: Response<_>| response.map(Body::new))`.
/// - `axum::middleware::from_fn` takes requests with `axum::body::Body`. Inside of
///   `IdempotencyLayer` or of a key out of the body it stands behind
///   `.map_request(|request: Request<_>| request.map(Body::new))`.
///
/// ```
/// use std::time::Duration;
///
/// use axum::Router;
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use lock_tower::LockLayer;
/// use lock_tower::key::path;
/// use tower::ServiceBuilder;
/// use tower_http::compression::CompressionLayer;
/// use tower_http::timeout::TimeoutLayer;
/// use tower_http::trace::TraceLayer;
///
/// # let locks = lock_core::LockClient::memory();
/// let timeout = |secs| {
///     TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(secs))
/// };
/// let app: Router = Router::new().route("/buy/{sku}", post(async || "sold")).layer(
///     ServiceBuilder::new()
///         .layer(TraceLayer::new_for_http())
///         .layer(CompressionLayer::new())
///         .layer(timeout(10)) // waits of 2 * 2 s, 5 s of work
///         .layer(LockLayer::new(locks).key(path("buy:{sku}")))
///         .layer(timeout(5)),
/// );
/// # drop(app);
/// ```
///
/// # Cancel safety
///
/// When the client goes away the response future is dropped. A waiter leaves the line. A running
/// handler is dropped and then its lock given up, unless
/// [`detach_on_disconnect`](Self::detach_on_disconnect) is set.
#[derive(Debug, Clone)]
#[doc(alias("mutex", "semaphore"))]
#[must_use = "a layer does nothing until it is added to a service"]
pub struct LockLayer<K = NoKey> {
    key: K,
    config: Config,
}

impl LockLayer {
    /// A layer with the defaults and no key yet.
    pub fn new(locks: LockClient) -> Self {
        let options = locks.defaults();
        let options = options.with_wait(Duration::from_secs(2)).with_retries(1);
        let options = options.with_admission(true);
        let config = Config {
            locks,
            options,
            shared_if: None,
            waiters_per_key: 1_000,
            waiters: 10_000,
            places: Arc::default(),
            retry_budget: RetryBudget::new(Arc::default()),
            answers: Answers::default(),
            hold_until: HoldUntil::default(),
            on_lost: OnLost::default(),
            detach: false,
        };
        Self { key: NoKey, config }
    }
}

impl<K> LockLayer<K> {
    /// The key that requests are serialised by: an extractor of [`key`](crate::key), such as
    /// `path("order:{id}").parsed::<u64>()`. Without the type the key is the spelling: `/pay/1` and
    /// `/pay/01` are two locks, also where the handler takes both for one number.
    pub fn key<E>(self, key: E) -> LockLayer<E> {
        LockLayer { key, config: self.config }
    }

    /// Runs up to so many requests of a key at once (1 to 1,024), over all processes: a limit of
    /// concurrency for what the key names, whichever server the requests come to. The next one
    /// waits and is refused as for a lock.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::routing::get;
    /// use lock_tower::LockLayer;
    /// use lock_tower::key::path;
    ///
    /// // The search takes five calls of a tenant at once, however many servers make them.
    /// # let locks = lock_core::LockClient::memory();
    /// let limit = LockLayer::new(locks).permits(5).key(path("search:{tenant}"));
    /// let app: Router =
    ///     Router::new().route("/search/{tenant}", get(async || "found")).route_layer(limit);
    /// # drop(app);
    /// ```
    ///
    /// All who use a key had better say the same number. As long as requests hold or wait for
    /// permits, one who says another is answered with 500 `lock_misconfigured`. So give the key a
    /// new name when a rollout changes the number; until the rollout ends, both limits stand beside
    /// each other. See [`LockOptions::permits`](lock_core::LockOptions::permits).
    ///
    /// The last one of this, [`shared_if`](Self::shared_if) and [`shared`](Self::shared) counts.
    #[doc(alias("semaphore", "concurrency limit"))]
    pub fn permits(self, of: u32) -> Self {
        self.mode(Mode::Permit { of }, None)
    }

    /// Runs the requests whose head it holds for together, and every other one alone: many
    /// readers, or one writer. They wait in one line, so no stream of readers keeps a writer out.
    /// It is asked once for each request that has a key.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::routing::get;
    /// use lock_tower::LockLayer;
    /// use lock_tower::key::path;
    ///
    /// # let locks = lock_core::LockClient::memory();
    /// let layer = LockLayer::new(locks)
    ///     .key(path("doc:{id}").parsed::<u64>())
    ///     .shared_if(|head| head.method.is_safe());
    /// let doc = get(async || "read").put(async || "written");
    /// let app: Router = Router::new().route("/doc/{id}", doc).route_layer(layer);
    /// # drop(app);
    /// ```
    ///
    /// Ask whether the method is safe, not whether it is GET: axum gives a HEAD to the handler of
    /// GET, and under `== Method::GET` it would be a writer, whom all readers wait for.
    ///
    /// A handler that shares its key cannot lock it alone: it would wait for itself, and is refused
    /// with [`Rejection::Upgrade`](lock_core::error::Rejection::Upgrade). See
    /// [`LockOptions::shared`](lock_core::LockOptions::shared).
    ///
    /// The last one of this, [`permits`](Self::permits) and [`shared`](Self::shared) counts.
    pub fn shared_if<P>(self, predicate: P) -> Self
    where
        P: Fn(&Parts) -> bool + Send + Sync + 'static,
    {
        self.mode(Mode::Exclusive, Some(SharedIf::new(predicate)))
    }

    /// Runs all requests of a key together, and apart from who locks it alone: another layer, or a
    /// job. Of this, [`permits`](Self::permits) and [`shared_if`](Self::shared_if) the last one
    /// counts.
    pub fn shared(self) -> Self {
        self.mode(Mode::Shared, None)
    }

    fn mode(mut self, mode: Mode, shared_if: Option<SharedIf>) -> Self {
        self.config.options.mode = mode;
        self.config.shared_if = shared_if;
        self
    }

    /// How long one try may wait for the lock. With zero, only a free lock is taken.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.config.options.wait = wait;
        self
    }

    /// How many further tries follow one that failed, as far as the retry budget allows. A fault of
    /// the store that may pass is tried again, and without [`admission`](Self::admission) also a
    /// wait that ran out.
    ///
    /// Before each of them there is a jittered pause, at first of 25 to 50 ms. It doubles up to 1
    /// s, and is half of the time that is left at most. A request waits at most
    /// `wait * (1 + retries)`, pauses included (2 s for the answer of the store where `wait` is
    /// zero).
    pub fn retries(mut self, retries: u32) -> Self {
        self.config.options.retries = retries;
        self
    }

    /// Whether a request is refused at once, with 429 `lock_overloaded` and an honest
    /// `Retry-After`, when it could not be done within its budget (default: yes).
    ///
    /// The budget is `wait * (1 + retries)`. Under admission it is one wait in one place of the
    /// line: who left it to come back would only lose the place. How long the line takes is learnt
    /// from how long requests held the key of late. As long as nothing is known everybody is let
    /// in, and those who came in vain are told as soon as that is seen. See
    /// [`LockOptions::admission`](lock_core::LockOptions::admission).
    pub fn admission(mut self, admission: bool) -> Self {
        self.config.options.admission = admission;
        self
    }

    /// How long a grant lives at the store without a renewal, see
    /// [`LockOptions::lease`](lock_core::LockOptions::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.options.lease = lease;
        self
    }

    /// How long one request may hold the lock at all (1 ms to 24 h); then it is lost, see
    /// [`on_lost`](Self::on_lost).
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.config.options.hold_limit = Some(limit);
        self
    }

    /// How long an idle lease is kept after the last release in this process, see
    /// [`LockOptions::linger`](lock_core::LockOptions::linger).
    pub fn linger(mut self, linger: Duration) -> Self {
        self.config.options.linger = linger;
        self
    }

    /// How long a key stays taken from the grant on, however soon its request is answered: at most
    /// one request of a key per so long a time, over all processes. Those that
    /// [read](Self::shared_if) are spared. See
    /// [`LockOptions::min_hold`](lock_core::LockOptions::min_hold).
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.config.options.min_hold = min_hold;
        self
    }

    /// How to share a key with other processes.
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.config.options.fairness = fairness;
        self
    }

    /// By how many replicas of the store a grant must be acknowledged within `timeout` before it
    /// counts; none with 0. One that is not is answered with 503 `lock_not_replicated`. See
    /// [`LockOptions::replicas`](lock_core::LockOptions::replicas).
    pub fn replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.config.options = self.config.options.with_replicas(count, timeout);
        self
    }

    /// The purpose of the lock. It is shown to operators where the store has a place for it, see
    /// [`LockBuilder::name`](lock_core::LockBuilder::name), and has at most 128 bytes and no control
    /// characters.
    pub fn name(mut self, name: &'static str) -> Self {
        self.config.options.name = Some(name);
        self
    }

    /// How many may wait for one key in this process, the one that is about to get a free lock
    /// included. The next request is answered with 429 `lock_waiters_per_key` at once. Zero is
    /// taken for 1.
    ///
    /// Only the line of the key in the lock client counts. Requests of other layers and other
    /// acquires stand in it too; who holds the lock does not. A request that pauses between two
    /// tries is not in line: its next try is answered with 429 if the line is full then.
    pub fn waiters_per_key(mut self, waiters: usize) -> Self {
        self.config.waiters_per_key = waiters.max(1);
        self
    }

    /// How many requests of this layer may wait in this process over all keys, pauses between
    /// tries included. The next is answered with 429 `lock_waiters` at once. Zero is taken for 1.
    pub fn waiters(mut self, waiters: usize) -> Self {
        self.config.waiters = waiters.max(1);
        self
    }

    /// The budget that retries are paid from. Every request deposits once and every retry withdraws
    /// once; when the budget is used up, a try that failed is answered instead of repeated. Give
    /// several layers one `Arc` to let them share it.
    pub fn retry_budget(mut self, budget: impl Into<Arc<TpsBudget>>) -> Self {
        self.config.retry_budget = RetryBudget::new(budget.into());
        self
    }

    /// Answers this cause with another status than that of the [table](crate::answer): say 503 to
    /// [`Cause::Overloaded`] where a load balancer is to send the next requests elsewhere. Of
    /// [`Cause::Key`] it replaces what the extractor says. The `code` stays, and so does the status
    /// of gRPC.
    ///
    /// # Panics
    ///
    /// If it is no error status.
    #[track_caller]
    pub fn status(mut self, cause: Cause, status: StatusCode) -> Self {
        self.config.answers.set_status(cause, status);
        self
    }

    /// Answers in the application's own way whenever the layer answers by itself, for any
    /// [`Cause`]. The closure runs in the task of the request: it must not block. A client of gRPC
    /// ([`Refusal::is_grpc`]) reads no other answer than one of gRPC.
    ///
    /// The answer carries the [`HandlerRan`](lock_core::scope::HandlerRan) of the cause among its
    /// extensions, unless the closure puts another there.
    ///
    /// ```
    /// use axum::http::StatusCode;
    /// use axum::response::IntoResponse;
    /// use lock_tower::LockLayer;
    /// use lock_tower::answer::Cause;
    ///
    /// let layer = LockLayer::new(lock_core::LockClient::memory()).on_busy(|refusal| {
    ///     match refusal.cause() {
    ///         Cause::Timeout => (StatusCode::LOCKED, "somebody else buys this").into_response(),
    ///         _ => refusal.default_response().into_response(),
    ///     }
    /// });
    /// # let _ = layer;
    /// ```
    pub fn on_busy<F, B>(mut self, answer: F) -> Self
    where
        F: Fn(&Refusal<'_>) -> Response<B> + Send + Sync + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.config.answers.set_custom(answer);
        self
    }

    /// How long a request keeps its lock. A handler of web sockets takes it along by
    /// [`UpgradeLock`](crate::UpgradeLock).
    pub fn hold_until(mut self, until: HoldUntil) -> Self {
        self.config.hold_until = until;
        self
    }

    /// The fate of a handler whose lock is lost while it runs.
    pub fn on_lost(mut self, action: OnLost) -> Self {
        self.config.on_lost = action;
        self
    }

    /// Finishes a handler that has begun, with its lock, when the client goes away. A request
    /// that still waits leaves the line as ever.
    ///
    /// Every handler then runs in a task of its own from the start, inside the reentrancy scope and
    /// the tracing span of the request. Task-local values of other middleware do not reach it.
    pub fn detach_on_disconnect(mut self) -> Self {
        self.config.detach = true;
        self
    }
}

impl<S, K: Clone> Layer<S> for LockLayer<K> {
    type Service = LockService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(inner, self.key.clone(), Arc::new(self.config.clone()))
    }
}
