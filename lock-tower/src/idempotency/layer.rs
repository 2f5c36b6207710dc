//! The layer and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, Response, StatusCode, response};
use http_body::Body;
use lock_core::idempotency::{Duplicates, Idempotency, OnUnknown, Scope};
use tower_layer::Layer;

use super::cause::Cause;
use super::config::{Config, OnDisconnect, OnStoreDown, Stores};
use super::headers::Replayed;
use super::places::Bounds;
use super::refusal::Refusal;
use super::scope::{HasScope, NoScope, ScopeOutcome};
use super::service::IdempotencyService;
use crate::answer::Answers;
use crate::{BoxError, OnLost};

/// How much of a request's or a response's body is read unless told otherwise: 1 MiB.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How many bytes of requests may wait unless told otherwise: 64 MiB.
pub const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

const WAITERS: usize = 10_000;
const WAITERS_PER_SCOPE: usize = 1_000;

/// How long the body of a request is read unless told otherwise: 30 s.
pub const REQUEST_WAIT: Duration = Duration::from_secs(30);

/// How long the body of a response is read unless told otherwise: 10 s.
pub const RESPONSE_WAIT: Duration = Duration::from_secs(10);

/// Runs each request with an idempotency key once, over all processes that share the stores of
/// its engine. See the [module](super) for what is answered.
///
/// | option | default | bounds |
/// |---|---|---|
/// | [`scope`](Self::scope) or [`global_scope`](Self::global_scope) | none, must be given | |
/// | [`header`](Self::header) | `Idempotency-Key` | |
/// | [`required`](Self::required) | true | |
/// | [`methods`](Self::methods) | POST, PATCH | |
/// | [`fingerprint_header`](Self::fingerprint_header) | none beside the content type and coding | |
/// | [`request_bytes_max`](Self::request_bytes_max), [`response_bytes_max`](Self::response_bytes_max) | 1 MiB | |
/// | [`request_wait`](Self::request_wait), [`response_wait`](Self::response_wait) | 30 s, 10 s | |
/// | [`store_if`](Self::store_if) | [`stored_by_default`](super::stored_by_default) | |
/// | [`replay_header`](Self::replay_header) | what says what the body is and where the result is | |
/// | [`waiters_per_key`](Self::waiters_per_key), [`waiters_per_scope`](Self::waiters_per_scope), [`waiters`](Self::waiters) | 100, 1,000, 10,000 | at least 1 |
/// | [`first_requests_per_scope`](Self::first_requests_per_scope), [`first_requests`](Self::first_requests) | 1,000, 10,000 | at least 1 |
/// | [`waiting_bytes_max`](Self::waiting_bytes_max) | 64 MiB | |
/// | [`duplicates`](Self::duplicates), [`on_unknown`](Self::on_unknown) | those of the engine | as [`Idempotency`] has them |
/// | [`on_store_down`](Self::on_store_down) | 503 | |
/// | [`on_disconnect`](Self::on_disconnect) | the handler runs on | |
/// | [`on_lost`](Self::on_lost) | stop the handler, 503 | |
/// | [`status`](Self::status) | those of the [module](super) | 400 to 599 |
///
/// Clones of a layer, and all services that it makes, count waiters together.
///
/// # Cancel safety
///
/// When the client goes away the response future is dropped. A request that still waits leaves the
/// line and never runs. A handler that has begun runs on, unless
/// [`on_disconnect`](Self::on_disconnect) says otherwise.
#[derive(Debug, Clone)]
#[doc(alias = "idempotency key")]
#[must_use = "a layer does nothing until it is added to a service"]
pub struct IdempotencyLayer<C = NoScope> {
    scope: C,
    config: Config,
}

impl IdempotencyLayer {
    /// A layer with the defaults and no scope yet.
    pub fn new(engine: Idempotency) -> Self {
        let config = Config {
            engine,
            header: HeaderName::from_static("idempotency-key"),
            required: true,
            methods: Arc::new([Method::POST, Method::PATCH]),
            fingerprinted: Vec::new(),
            request_bytes_max: BODY_BYTES_MAX,
            request_wait: REQUEST_WAIT,
            response_bytes_max: BODY_BYTES_MAX,
            response_wait: RESPONSE_WAIT,
            stores: Stores::ByDefault,
            replayed: Replayed::default(),
            bounds: Bounds {
                waiters: WAITERS,
                waiters_per_scope: WAITERS_PER_SCOPE,
                waiters_per_key: 100,
                first_requests: WAITERS,
                first_requests_per_scope: WAITERS_PER_SCOPE,
                bytes: WAITING_BYTES_MAX,
                body_bytes_max: BODY_BYTES_MAX,
            },
            places: Arc::default(),
            on_store_down: OnStoreDown::default(),
            on_disconnect: OnDisconnect::default(),
            on_lost: OnLost::default(),
            answers: Answers::default(),
        };
        Self { scope: NoScope, config }
    }
}

impl<C> IdempotencyLayer<C> {
    /// The owner of the key: the tenant or the user that authentication has found. Two scopes never
    /// share a record, so a client cannot be given the response of another, whatever key it sends.
    ///
    /// A service of several hosts puts the host into it, which is no part of what makes two
    /// requests the same.
    ///
    /// The closure returns a [`Scope`], or a `Result` of one whose error is a
    /// [`StatusCode`](http::StatusCode) or a [`Reject`](crate::answer::Reject). It is asked once
    /// for each request with a good key, before its body is read, in the call of the service: it
    /// must not block.
    pub fn scope<F, O>(self, scope: F) -> IdempotencyLayer<HasScope>
    where
        F: Fn(&Parts) -> O + Send + Sync + 'static,
        O: Into<ScopeOutcome>,
    {
        IdempotencyLayer { scope: HasScope::new(scope), config: self.config }
    }

    /// One scope for all clients. Whoever guesses or learns the key of another gets its response:
    /// only where all clients may see all responses.
    pub fn global_scope(self) -> IdempotencyLayer<HasScope> {
        self.scope(|_| Scope::Global)
    }

    /// The header that carries the key.
    ///
    /// # Panics
    ///
    /// If the name is no header name.
    #[track_caller]
    pub fn header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Display,
    {
        self.config.header = header_name(name);
        self
    }

    /// Whether a request without a key is refused, or passes unprotected.
    pub fn required(mut self, required: bool) -> Self {
        self.config.required = required;
        self
    }

    /// The methods that are looked at; requests with others pass.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.config.methods = methods.into_iter().collect();
        self
    }

    /// Counts a header as a part of the request: the same key with another value of it is
    /// answered with 422. For what changes the meaning of a request, as a version of the API. Not
    /// for what a retry has anew, as a date, a trace or a signature over them.
    ///
    /// # Panics
    ///
    /// If the name is no header name.
    #[track_caller]
    pub fn fingerprint_header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Display,
    {
        let name = header_name(name);
        // One order for all processes, whatever the order of the calls.
        if let Err(at) =
            self.config.fingerprinted.binary_search_by_key(&name.as_str(), |it| it.as_str())
        {
            self.config.fingerprinted.insert(at, name);
        }
        self
    }

    /// The longest body of a request, in bytes. It is read before any waiting, as it is part of
    /// the fingerprint; a longer one is answered with 413, unread where its length is announced.
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.config.request_bytes_max = bytes;
        self.config.bounds.body_bytes_max = bytes;
        self
    }

    /// How long the body of a request is read; one that takes longer is answered with 408. Without
    /// a bound, clients that send nothing would take all places of
    /// [`first_requests`](Self::first_requests).
    pub fn request_wait(mut self, wait: Duration) -> Self {
        self.config.request_wait = wait;
        self
    }

    /// The longest body of a response that is stored, in bytes. A longer one goes to its caller in
    /// full and is not stored: a retry is answered with 409, and the handler does not run again.
    pub fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.config.response_bytes_max = bytes;
        self
    }

    /// How long the body of a response is read for its record, under the lock. What takes longer
    /// is taken for a stream: it goes on to its caller and is not stored, as one that is too long.
    ///
    /// The caller of a body whose length is announced sees it when it is stored, and waits as long
    /// as this at most. Any other body is sent as it comes, and its end when it is stored. One that
    /// its `content-type` declares for a stream (server-sent events, lines of JSON, …) is sent as it
    /// comes and never stored.
    pub fn response_wait(mut self, wait: Duration) -> Self {
        self.config.response_wait = wait;
        self
    }

    /// The responses that are stored, by status and headers. After one that is not, a retry runs
    /// the handler again, unless it is no error and commits a transaction of the handler: then a retry
    /// gets 409 `idempotency_response_not_stored`.
    ///
    /// It replaces [`stored_by_default`](super::stored_by_default) and what is known of gRPC, whose
    /// errors have the status 200. Of those that come without a message, these are stored by default:
    /// `INVALID_ARGUMENT`, `NOT_FOUND`, `ALREADY_EXISTS`, `FAILED_PRECONDITION` and `OUT_OF_RANGE`. One
    /// behind messages always is.
    ///
    /// Protocol upgrades are not asked about: they never run twice. Where the closure panics the
    /// caller gets the response, and a retry 409 `idempotency_response_not_stored`: the handler has
    /// done its work.
    pub fn store_if<F>(mut self, stores: F) -> Self
    where
        F: Fn(&response::Parts) -> bool + Send + Sync + 'static,
    {
        self.config.stores = Stores::If(Arc::new(stores));
        self
    }

    /// Stores every response, 500 too: what has run to a response never runs again. Not what is
    /// no response of the handler by its [`HandlerRan`](lock_core::scope::HandlerRan), as that of a lock
    /// layer which did not let it run.
    pub fn store_everything(self) -> Self {
        self.store_if(|_| true)
    }

    /// Replays a further header. By default those are `content-type`, `content-encoding`,
    /// `content-language`, `content-disposition`, `content-location`, `location`, `etag`,
    /// `last-modified`, `link`, and what makes the status of gRPC.
    ///
    /// # Panics
    ///
    /// If the name is no header name, or of one that is never replayed: `set-cookie`, what belongs
    /// to authentication, `date`, `content-length`, which is made anew, and what is hop-by-hop.
    #[track_caller]
    pub fn replay_header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Display,
    {
        if let Err(name) = self.config.replayed.add(header_name(name)) {
            panic!("`{name}` is never replayed");
        }
        self
    }

    /// How many duplicates may wait in this process, over all scopes; the next is answered with
    /// 429 `idempotency_waiters` at once. Zero is taken for 1.
    ///
    /// A duplicate is a request for whose record another one is here: is read, waits or runs in
    /// this process. Those that run do not count. A first request, of a record for which nobody
    /// is here, is never refused for duplicates: it has [bounds of its own](Self::first_requests).
    pub fn waiters(mut self, waiters: usize) -> Self {
        self.config.bounds.waiters = waiters.max(1);
        self
    }

    /// How many duplicates of one scope may wait in this process; the next is answered with 429
    /// `idempotency_waiters_per_scope`. Not applied to [`Scope::Global`]. Zero is taken for 1.
    pub fn waiters_per_scope(mut self, waiters: usize) -> Self {
        self.config.bounds.waiters_per_scope = waiters.max(1);
        self
    }

    /// How many duplicates of one request may wait in this process; the next is answered with 429
    /// `idempotency_waiters_per_key`. Zero is taken for 1.
    pub fn waiters_per_key(mut self, waiters: usize) -> Self {
        self.config.bounds.waiters_per_key = waiters.max(1);
        self
    }

    /// How many first requests may be read, or wait, in this process, over all scopes; the next is
    /// answered with 429 `idempotency_waiters`. Those that run do not count. Zero is taken for 1.
    pub fn first_requests(mut self, requests: usize) -> Self {
        self.config.bounds.first_requests = requests.max(1);
        self
    }

    /// How many first requests of one scope may be read, or wait, in this process; the next is
    /// answered with 429 `idempotency_waiters_per_scope`. Not applied to [`Scope::Global`], where
    /// one client's slow uploads can keep others out. Zero is taken for 1.
    pub fn first_requests_per_scope(mut self, requests: usize) -> Self {
        self.config.bounds.first_requests_per_scope = requests.max(1);
        self
    }

    /// How many bytes of bodies first requests may have in memory while they are read or wait, and
    /// how many the duplicates may have beside them. One scope has a quarter of each at most, but
    /// for [`Scope::Global`]. They are counted as they arrive, and until the request runs or is
    /// answered. One beyond them is answered with 429 `idempotency_waiting_bytes`. Less than
    /// [`request_bytes_max`](Self::request_bytes_max) is taken for that, for a scope too, so that
    /// one body always fits.
    pub fn waiting_bytes_max(mut self, bytes: usize) -> Self {
        self.config.bounds.bytes = bytes;
        self
    }

    /// The choice for a request while another with its key runs.
    pub fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.config.engine = self.config.engine.with_duplicates(duplicates);
        self
    }

    /// The choice for a request when one with its key began before and nobody knows how it ended.
    ///
    /// A timeout, load shedding or a lock *inside* of this layer cuts the handler and answers for
    /// it. These answers have no outcome:
    ///
    /// - Those that carry [`HandlerRan::InPart`](lock_core::scope::HandlerRan), as the answers of a
    ///   [`LockLayer`](crate::LockLayer) do, whatever their status.
    /// - Those of a handler that a lock inside has cut ([`CutWatch`](lock_core::scope::CutWatch)),
    ///   whatever its error was made into, unless the response is stored.
    /// - Under [`OnUnknown::Refuse`] also an error of the service, a panic, and a 408 or 5xx that
    ///   is not stored: a cut that does not say so looks like them.
    ///
    /// Under [`OnUnknown::Refuse`] a retry of them is refused, under [`OnUnknown::Reexecute`] it
    /// runs. A handler that knows that it did nothing answers with
    /// [`HandlerRan::No`](lock_core::scope::HandlerRan), and a retry runs. A timeout that answers with
    /// another status must carry `InPart`.
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.config.engine = self.config.engine.with_on_unknown(on_unknown);
        self
    }

    /// The fate of a request while the lock service or the record store is out of reach.
    pub fn on_store_down(mut self, action: OnStoreDown) -> Self {
        self.config.on_store_down = action;
        self
    }

    /// The fate of a handler whose client goes away.
    ///
    /// With [`OnDisconnect::Finish`] every handler runs in a task of its own from the start, in the
    /// tracing span of the request. Task-local values of other middleware do not reach it, and
    /// their limits do not hold it once its client is gone: see there.
    pub fn on_disconnect(mut self, action: OnDisconnect) -> Self {
        self.config.on_disconnect = action;
        self
    }

    /// The fate of a handler whose lock is lost while it runs. Either way a response that is to be
    /// stored is not sent once a later request has taken over. The caller gets 503
    /// `idempotency_lost`, and comes back for the response that is stored. With [`OnLost::Report`]
    /// one that is not to be stored, as a 5xx, is sent all the same: it tells its caller to come
    /// back, too.
    pub fn on_lost(mut self, action: OnLost) -> Self {
        self.config.on_lost = action;
        self
    }

    /// Answers this cause with another status than that of the [table](super). Of [`Cause::Key`],
    /// [`Cause::Scope`] and [`Cause::Body`] it replaces all that there are. The `code` stays, and
    /// so does the status of gRPC.
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
    /// use lock_core::LockClient;
    /// use lock_core::idempotency::{Idempotency, MemoryRecords};
    /// use lock_tower::IdempotencyLayer;
    /// use lock_tower::idempotency::Cause;
    ///
    /// let engine = Idempotency::new("shop", LockClient::memory(), MemoryRecords::new());
    /// let layer = IdempotencyLayer::new(engine).global_scope().on_refused(|refusal| {
    ///     match refusal.cause() {
    ///         Cause::InFlight => (StatusCode::TOO_EARLY, "we are at it").into_response(),
    ///         _ => refusal.default_response().into_response(),
    ///     }
    /// });
    /// # let _ = layer;
    /// ```
    pub fn on_refused<F, B>(mut self, answer: F) -> Self
    where
        F: Fn(&Refusal<'_>) -> Response<B> + Send + Sync + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.config.answers.set_custom(answer);
        self
    }
}

#[track_caller]
fn header_name<N>(name: N) -> HeaderName
where
    N: TryInto<HeaderName>,
    N::Error: fmt::Display,
{
    match name.try_into() {
        Ok(name) => name,
        Err(error) => panic!("bad header name: {error}"),
    }
}

impl<S> Layer<S> for IdempotencyLayer<HasScope> {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(inner, self.scope.clone(), Arc::new(self.config.clone()))
    }
}
