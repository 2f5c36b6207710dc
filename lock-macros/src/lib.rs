//! The attributes of `lock-core`. Use them from there: `lock_core::distributed_lock` is on by
//! default, `lock_core::idempotent` is the feature `idempotent`.
//!
//! - [`distributed_lock`]: an `async fn` runs under a distributed lock.
//! - [`idempotent`](macro@idempotent): an `async fn` runs once per key.
//!
//! ```toml
//! [dependencies]
//! axum = { version = "0.8", features = ["macros"] }
//! lock-core = { version = "0.1", features = ["redis", "idempotent"] }
//! tokio = { version = "1", features = ["full"] }
//! ```
//!
//! The features of this crate are lock-core's, which turns them on: `axum` (a default there) and
//! `idempotent`. An expansion that lacks one says which.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
mod duration;
mod expand;
mod idempotent;
mod rules;
mod self_name;
mod target;
mod template;
mod valid;

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser as _};

use crate::args::Args;
use crate::target::{Form, Target};

/// Runs an `async fn`, or a plain one, under a distributed lock: the body starts when the lock is held, and never
/// without it.
///
/// Use it as `lock_core::distributed_lock` (features `macros` and, for handlers, `axum`: both are on
/// by default).
///
/// ```
/// use axum::Json;
/// use axum::extract::{FromRef, Path, State};
/// use lock_core::{AcquireError, LockClient, distributed_lock};
///
/// #[derive(Clone, FromRef)]
/// struct App {
///     locks: LockClient,
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Pay {
///     sku: String,
/// }
///
/// #[distributed_lock(key = "order:{id}:{req.sku}", wait = "2s", lease = "10s")]
/// async fn pay(
///     State(app): State<App>,
///     Path(id): Path<u64>,
///     Json(req): Json<Pay>,
/// ) -> Result<String, AcquireError> {
///     Ok(format!("{} paid once", req.sku))
/// }
/// # let _: axum::Router<App> = axum::Router::new().route("/{id}", axum::routing::post(pay));
/// ```
///
/// The signature stays as it is. The attribute works on functions, methods with any receiver,
/// `async fn` in traits, methods under `#[async_trait]`, and above or below `#[debug_handler]` and
/// `#[instrument]`. Above `#[instrument]` the span is of the whole call, below it of the body
/// alone. With `guard`, write it above `#[debug_handler]`, which otherwise copies the body and does
/// not know the name.
///
/// # Options
///
/// | option | value | default |
/// |---|---|---|
/// | `key` | what is locked, see below | the module and the name of the function, if it has no parameters |
/// | `keys` | `[..]` of keys, or an expression that iterates over them | |
/// | `client` | an expression: a `LockClient`, or an `Option`, `&` or `Arc` of one | see below |
/// | `shared` | a word without a value: the body runs beside others who share the lock, see below | the client's, exclusive |
/// | `permits` | how many bodies may run at once, 1 to 1024, see below | the client's, exclusive |
/// | `wait` | how long one try waits, over 0 to 24 h | `"2s"` |
/// | `retries` | how many tries follow the first, 0 to 1000 | `1` |
/// | `lease` | how long the store keeps the lock without a renewal, to 24 h | the client's, 10 s |
/// | `hold` | how long the body may hold the lock at all, 1 ms to 24 h | the client's, no limit |
/// | `min_hold` | how long the lock stays taken though the body is shorter, over 0 to 23 h 37 min: a job runs once per interval | the client's, 0 |
/// | `admission` | a `bool`: whether a call is refused at once when waiting is of no use | the client's, `false` |
/// | `name` | a text for operators, where the store has a place for it; at most 128 bytes, no control characters | the function's path |
/// | `guard` | the name under which the body sees its lock | |
/// | `on_busy` | makes the function's value when the lock is not had, see below | |
/// | `on_lost` | `"cancel"` or `"report"` | `"cancel"` |
/// | `when` | a `bool`: where it is false, the body runs without a lock | `true` |
/// | `reentrant` | a `bool`: whether a call inside of another for the same key goes on | the client's, `true` |
/// | `blocking` | a word without a value: the function is a plain `fn`, whose thread waits, see below | |
/// | `crate` | the path of lock-core, where it is re-exported | `::lock_core` |
///
/// A duration is a literal, such as `"250ms"` or `"1m 30s"`, which the compiler checks. Or it is an
/// expression of type `Duration`, which the acquire checks; `wait = Duration::ZERO` tries once and
/// does not wait. Expressions see the arguments and `self`. They are evaluated once, before the
/// body: `when`, `client`, the rest, the key; where `when` is false, nothing else is.
///
/// # Keys
///
/// - `key = "order:{id}:{req.sku}"`: `{name}` is an argument or a constant generic, by its
///   `Display`, and `{name.field.0}` a part of one. `{{` and `}}` stand for the characters.
/// - `key = ("order:{}:{}", id, req.sku.len())`: values as in `format!`, each used once.
/// - `key = expr`: whatever lock-core's `IntoKey` takes. In text, ':' separates segments.
///
/// Values are encoded: whatever a value contains, it can't end its segment, so a user who sends
/// `1:paid` does not lock order `1`. For the same reason two values need a ':' between them. A key
/// is at most 512 bytes, and not empty; anything else is a rejection, and the body does not run.
///
/// With `keys` (at most 64) all locks are taken or none, as `LockClient::lock_all` does: one after the
/// other, each once, in one order, so two functions with the same keys can't block each other. The
/// waiting for all of them together is bounded as for one, and each try is for all. `hold` begins
/// when all are held. The loss of one is the loss of all.
///
/// # Sharing
///
/// A body is alone under its lock, unless the function says one of these. Both are about the key,
/// over all functions and processes. Whoever waits in one process is served in the order of arrival,
/// and processes among each other as the client's fairness says.
/// - `shared`: bodies of functions that share the key run at once, and a function that does not say
///   so is the writer: `#[distributed_lock(key = "doc:{id}", shared)]` reads what
///   `#[distributed_lock(key = "doc:{id}")]` writes.
/// - `permits = 5`: at most five run at once. It is a literal or an expression of type `u32`. All
///   who use the key had better say the same number: another is refused as long as the key is in
///   use, with `Rejection::OtherLimit`.
///
/// A body that shares a key can't call what wants the key alone, which would wait for its own
/// caller: that is refused with `Rejection::Upgrade`. With `keys`, each of them is shared so. The
/// store has to serve it (`Capabilities::shared` and `permits`): a quorum does not.
///
/// # The client
///
/// `client` if given; else axum's state, if an argument is written `State(name): State<S>` and
/// `LockClient: FromRef<S>`; else the client given to `LockClient::install_global`. If there is
/// none, the call fails with `Rejection::NoClient`. A macro sees names only: a `State` behind a type
/// alias, or of another framework, needs `client`.
///
/// # When there is no lock
///
/// The return type has to say so, which is the trait `FromLockError`: any `Result<T, E>` with
/// `E: From<AcquireError>`, and axum's `Response`. For `impl IntoResponse` the failure is a
/// response of its own. For anything else, or another answer, give `on_busy`. A closure, or the
/// path of a function, is called with the `AcquireError` and returns the function's value; with
/// `impl IntoResponse` that is any response. Any other expression is the value itself, as is a
/// constant, whose name is in capitals.
///
/// As a response the `AcquireError` is a problem document (`lock_core::problem::Problem`, RFC 9457), the same
/// that `lock_tower::LockLayer` answers with:
///
/// | error | status | `code` | `Retry-After` |
/// |---|---|---|---|
/// | `Timeout`: others held the lock for the whole budget | 409 | `lock_timeout` | yes |
/// | `Overloaded`: the line is full or, with `admission`, too slow | 429 | `lock_overloaded` | yes |
/// | `Unavailable`: the store is out of reach | 503 | `lock_unavailable` | where it may come back by itself |
/// | `NotReplicated` | 503 | `lock_not_replicated` | yes, but for a re-entry |
/// | `Closed`: the client is shut down | 503 | `lock_closed` | yes |
/// | `Lost`: the body was stopped in the middle | 503 | `lock_lost` | no |
/// | `Rejected`, a key that is empty or too long | 400 | `lock_key_rejected` | no |
/// | `Rejected`, anything else: an option out of bounds, another number of permits, no client | 500 | `lock_misconfigured` | no |
///
/// For another status, `on_busy = |error| Problem::of(&error).with_status(status).response()` in a
/// handler that returns `impl IntoResponse`. The document is JSON: a method of gRPC makes its
/// `Status` with `on_busy`.
///
/// # When the lock is lost
///
/// A process that pauses, or is cut off from the store, can lose a lock that it thought it had.
/// - `on_lost = "cancel"`: the body is dropped at the `.await` it is at, and the function returns
///   as above, with `AcquireError::Lost`. That is not retryable, as what the body had done by then
///   is done. An `on_busy` that uses an argument is not asked then, as the arguments are gone:
///   `FromLockError` is.
/// - `on_lost = "report"`: the body runs on, and can ask `guard`.
///
/// A body that does not await can't be stopped; if it blocked past its lease, the function fails
/// when it is done. Give the fencing token of `guard` to what the body writes to, so that writes
/// under an old lock can be refused.
///
/// # The guard
///
/// `guard = g` binds a `LockHandle`: the token, whether the lock is held, a future of its loss.
/// With `keys` it is a `MultiLockHandle`, with a token for each key, and with `when` an `Option`. The
/// lock itself is released when the body has returned, panicked or been dropped. The function does
/// not wait for the store's answer to that, so a program that ends right after should call
/// `LockClient::shutdown`.
///
/// The body may call, also through other functions, what takes the same key of the same client:
/// that goes on with the same token (`reentrant`). Of two such calls at once, one waits for the
/// other. Such a call is under the `lease` and the `hold` of the first. A spawned task is outside,
/// see `LockScope`.
///
/// # Plain functions
///
/// With `blocking` the attribute stands on a plain `fn`, for a thread of its own or
/// `spawn_blocking`: `#[distributed_lock(key = "report", client = locks, blocking)]`. Its thread
/// stands still while it waits for the lock. It panics where the thread polls the tasks of a Tokio
/// runtime, see `lock_core::blocking::wait`. A body that is not async can't be stopped: where the
/// lock was lost meanwhile, the function fails when its body is done.
///
/// # Cancel safety
///
/// Dropping the future gives up the wait, or drops the body and then releases the lock. Arguments
/// are moved into the body, so none of them outlives the lock. But what a pattern leaves unnamed
/// (`_`, `..`) stays with the function's own future, and is dropped after the release.
#[doc(alias = "mutex")]
#[proc_macro_attribute]
pub fn distributed_lock(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expanded(lock, args, item)
}

/// Runs an `async fn` once per key: later calls with the key are given what the first came to.
///
/// Use it as `lock_core::idempotent` (feature `idempotent`; for handlers `axum`, a default). The engine is
/// that of `lock_core::idempotency`, which says what is promised.
///
/// ```
/// use lock_core::LockClient;
/// use lock_core::idempotency::{Idempotency, IdempotencyError, MemoryRecords};
/// use lock_core::idempotent;
///
/// #[idempotent(
///     key = "{request_id}", scope = "tenant:{tenant}", client = once,
///     fingerprint = (order, amount), ttl = "24h", guard = lock
/// )]
/// async fn pay(
///     once: &Idempotency,
///     tenant: &str,
///     request_id: &str,
///     order: u64,
///     amount: u64,
/// ) -> Result<String, IdempotencyError> {
///     Ok(format!("order {order} paid once, under token {}", lock.token()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), IdempotencyError> {
/// let once = Idempotency::new("shop", LockClient::memory(), MemoryRecords::new());
/// let first = pay(&once, "a", "request-1", 42, 5).await?;
/// assert_eq!(pay(&once, "a", "request-1", 42, 5).await?, first);
/// let other = pay(&once, "a", "request-1", 42, 6).await;
/// assert!(matches!(other, Err(IdempotencyError::Mismatch)));
/// # Ok(()) }
/// ```
///
/// # Options
///
/// | option | value | default |
/// |---|---|---|
/// | `key` | which calls are the same, see below | mandatory |
/// | `scope` | whose keys they are: as `key`, or an expression of a `Scope`, or the word `global` | mandatory |
/// | `client` | an expression: an `Idempotency`, or an `Option`, `&` or `Arc` of one | as for `distributed_lock` |
/// | `ttl` | how long the value is kept, `"1s"` to `"366 days"` | the client's, 24 h |
/// | `fingerprint` | `(a, b)`: what must be the same in two calls with one key | nothing |
/// | `wait` | how long a call waits for one that runs, to 24 h | the client's, 10 s |
/// | `on_unknown` | `"reexecute"` or `"refuse"`: a call that was stopped, or whose process died, before its end | the client's, `"reexecute"` |
/// | `guard` | the name under which the body sees its lock, with the fencing token | |
/// | `tx` | the argument that is a `lock_core::idempotency::Tx`: an `Ok` is kept in that transaction and committed with it, an `Err` rolls it back (features `sqlite`, `postgres` and `mysql` of lock-core) | |
/// | `name` | what the function is called in the fingerprint, at most 128 bytes | the function's path; of a method, mandatory |
/// | `crate` | the path of lock-core, where it is re-exported | `::lock_core` |
///
/// Keys and scopes are written as the keys of [`distributed_lock`](macro@distributed_lock):
/// templates, tuples or expressions, with values that can't end their segment. The two are hashed
/// under the client's secret; neither the store nor a log sees them.
///
/// The function's name is part of the fingerprint: two functions with one key are a mismatch and no
/// mix-up. A function that is renamed and must know its old keys says `name`. Fingerprinted values
/// are compared as JSON: give none whose order changes from call to call, as that of a `HashMap`.
///
/// The path that stands for `name` has the module and the function, as a macro sees nothing around
/// the function. So what has a receiver, or says `Self`, must say `name`, as `"Shop::pay"`. Any
/// other two functions of one name in one module are one function without it: two in `impl` blocks
/// that say neither, or two inside of other functions. A method that a trait provides, and a generic
/// function, is one for all types: what tells them apart belongs in `key` or `fingerprint`.
///
/// # A scheduled job
///
/// A job that several nodes start by the same schedule takes the time at which it is *due*, not
/// that at which it is started, for its key. The first node runs it, and the others are given what
/// it came to, however late they are within `ttl`. With `try_acquire` a node that comes when the
/// first has finished would run it for the second time.
///
/// ```
/// use lock_core::idempotency::{Idempotency, IdempotencyError};
/// use lock_core::idempotent;
///
/// /// `due`: seconds since 1970, as `1767225600` for the first night of 2026.
/// #[idempotent(key = "nightly:{due}", scope = global, client = once, on_unknown = "refuse")]
/// async fn nightly(once: &Idempotency, due: u64) -> Result<u64, IdempotencyError> {
///     Ok(due)
/// }
/// # let _ = nightly;
/// ```
///
/// `on_unknown = "refuse"`: one whose node died in the middle is left to people. Without it the
/// next node begins it again.
///
/// # The value
///
/// The return type is one that can be kept and replayed, the trait `Replayable`: any `Result<T, E>`
/// with `T: Serialize + DeserializeOwned` and `E: From<IdempotencyError>`. An `Ok` is kept as JSON.
/// An `Err` is not: the record is removed, and a later call runs. Only where a lock inside has cut
/// its work the record stays, and `on_unknown` decides.
///
/// An `Ok` that JSON does not bring back as it was is returned once, and later calls are told
/// `WithoutPayload`. It is read back to find out. Such are `Some(None)`, `Some(())`, a number that
/// is infinite or none, and what can't be serialised.
///
/// A value that the store does not take within 2 s is returned all the same. One that comes too
/// late, after another call has taken over, is `IdempotencyError::Stale`.
///
/// # Cancel safety
///
/// Dropping the future, or a panic, drops the body, removes the record and releases the lock in the
/// background. Under `on_unknown = "refuse"` the record stays, as the body was stopped anywhere.
/// When the lock is lost, the body is dropped at the `.await` it is at, and the record stays, so
/// that `on_unknown` decides about the next call.
#[doc(alias = "idempotency key")]
#[proc_macro_attribute]
pub fn idempotent(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expanded(idempotent::generate, args, item)
}

/// The code that `generate` makes of the item, or its errors.
fn expanded(
    generate: fn(TokenStream, TokenStream) -> syn::Result<TokenStream>,
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    match generate(args.into(), item.clone()) {
        Ok(tokens) => tokens.into(),
        // The function is given back as it is, so that an editor can go on reading it.
        Err(error) => {
            let mut tokens = error.into_compile_error();
            tokens.extend(item);
            tokens.into()
        }
    }
}

fn lock(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let args = (|input: ParseStream<'_>| Args::parse(input, &rules::OPTIONS)).parse2(args)?;
    let form = match args.say(rules::BLOCKING) {
        true => Form::Blocking,
        false => Form::AsyncOr(rules::OR_BLOCKING),
    };
    let target = Target::parse(item, "distributed_lock", form)?;
    let plan = valid::plan(args, &target)?;
    Ok(expand::expand(target, &plan))
}

/// A function that is `unsafe` stays so, with its documentation; the crates of the workspace forbid
/// it, and doctests do not.
///
/// ```
/// #![deny(warnings, missing_docs)]
/// //! A crate.
/// use lock_core::{AcquireError, LockClient, distributed_lock};
///
/// /// Documented.
/// ///
/// /// # Safety
/// /// None needed.
/// #[must_use]
/// #[distributed_lock(key = "unsafe", client = locks)]
/// pub async unsafe fn dangerous(locks: LockClient) -> Result<u8, AcquireError> {
///     Ok(0)
/// }
///
/// fn main() {
///     let _ = async {
///         let _ = unsafe { dangerous(LockClient::memory()) }.await;
///     };
/// }
/// ```
#[cfg(doctest)]
struct Unsafe;
