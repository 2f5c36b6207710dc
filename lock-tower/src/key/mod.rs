//! The keys that requests are serialised by.
//!
//! Two requests wait for each other when they have the same key. So the key must say exactly what
//! they compete for, and nothing that a client sends may turn it into another one. The extractors
//! here take values from a request, encode each as a part of a [`Key`](lock_core::Key), and are
//! combined:
//!
//! | extractor | key of |
//! |---|---|
//! | [`path`] | path parameters, as axum's router matched them |
//! | [`header`] | headers |
//! | [`query`] | query parameters |
//! | [`json_pointer`] | values inside a JSON body of bounded length |
//! | [`key_fn`] | a closure over the head of the request |
//! | [`fixed`] | a constant |
//! | [`Combine::and`], [`or`](Combine::or), [`when`](Combine::when) | others |
//!
//! ```
//! use http::Method;
//! use lock_tower::key::{Combine, header, json_pointer};
//!
//! let key = header("account:{x-account}").parsed::<u64>();
//! let key = key.and(json_pointer("wallet:{/wallet}").parsed::<u32>().bytes_max(4 * 1024));
//! let key = key.when(|head| head.method == Method::POST); // `account:7:wallet:1`
//! # let _ = key;
//! ```
//!
//! Every one has three outcomes: a key, no lock at all, or a refusal with a status. What is
//! missing or ambiguous is refused: a handler never runs without its lock by mistake.
//!
//! # One thing, one key
//!
//! A value that a handler parses has many spellings: `7`, `07`, `+7` and `%2B7` are one `u64`.
//! [`parsed::<u64>()`](HeaderKey::parsed) takes only the one that the type's `Display` has, and
//! answers others with 400 `lock_key_not_canonical` before anything runs. Give it the type that
//! the handler takes.
//!
//! **Without a type the key is the spelling: `/pay/1` and `/pay/01` are two locks**, and a client
//! that knows it gets into the handler twice at once. So a key without a type is only for values
//! whose spelling is the identity, such as a SKU that the handler takes as text too. The handler
//! must not change its case, blanks, Unicode forms or slashes.
//!
//! # Templates
//!
//! All of [`path`], [`header`], [`query`] and [`json_pointer`] take a template: `order:{id}`. A `:`
//! separates the segments of the key. The first segment is fixed text that says what the key names:
//! two routes share a lock only if they begin with the same one. Each other segment has one name in
//! braces at most, with fixed text around it if need be. The value is encoded, so that it cannot
//! leave its segment. A template that is none panics where it is written, and says why.

// Files:
//
// - `extractor`: the seam between a request and its key.
// - `header`, `path`, `query`, `json`: keys of values there. `head`: by a closure, or constant.
// - `combine`, `when`: keys made of others.
// - `template`: keys with holes. `typed`: values that have one spelling.
// - `body`, `whole`: a body that is read and given again. `pointer`: a value inside of it.

mod body;
mod combine;
mod extractor;
mod head;
mod header;
mod json;
#[cfg(feature = "axum")]
mod path;
mod pointer;
mod query;
mod template;
mod typed;
mod when;
mod whole;

pub use body::BufferedBody;
#[cfg(feature = "idempotency")]
pub(crate) use body::is_too_large;
pub use combine::{And, AndFuture, Combine, Or, OrFuture};
pub use extractor::{Extracted, KeyExtractor, KeyOutcome};
pub use head::{FixedKey, FnKey, fixed, key_fn};
pub use header::{HeaderKey, header};
pub use json::{BODY_BYTES_MAX, JsonPointerFuture, JsonPointerKey, json_pointer};
#[cfg(feature = "axum")]
pub use path::{PathKey, path};
pub use query::{QueryKey, query};
pub use when::{When, WhenFuture};
#[cfg(feature = "idempotency")]
pub(crate) use whole::Whole;
