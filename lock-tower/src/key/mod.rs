//! What a request is serialised by.
//!
//! Two requests wait for each other when they have the same key, so the key must say exactly what
//! they compete for, and nothing that a client sends may turn it into another one. The extractors
//! here take one value each, encode it as one segment of a [`Key`](lock_core::Key), and are
//! combined:
//!
//! | extractor | key of |
//! |---|---|
//! | [`path`] | path parameters, as axum's router matched them |
//! | [`header`] | a header |
//! | [`query`] | a query parameter |
//! | [`json_pointer`] | a value inside a JSON body of bounded length |
//! | [`key_fn`] | a closure over the head of the request |
//! | [`fixed`] | a constant |
//! | [`Combine::and`], [`or`](Combine::or), [`when`](Combine::when) | others |
//!
//! ```
//! use http::Method;
//! use lock_tower::key::{Combine, fixed, header, json_pointer};
//!
//! let key = fixed("account")
//!     .and(header("x-account").optional())
//!     .and(json_pointer("/wallet").bytes_max(4 * 1024))
//!     .when(|head| head.method == Method::POST);
//! # let _ = key;
//! ```
//!
//! Every one has three outcomes: a key, no lock at all, or a refusal with a status. What is
//! missing or ambiguous is refused: a handler never runs without its lock by mistake.

mod body;
mod combine;
mod extractor;
mod head;
mod json;
#[cfg(feature = "axum")]
mod path;
#[cfg(feature = "axum")]
mod template;
mod when;
mod whole;

pub use body::BufferedBody;
#[cfg(feature = "idempotency")]
pub(crate) use body::is_too_large;
pub use combine::{And, AndFuture, Combine, Or, OrFuture};
pub use extractor::{Extracted, KeyExtractor, KeyOutcome, KeyReject};
pub use head::{FixedKey, FnKey, HeaderKey, QueryKey, fixed, header, key_fn, query};
pub use json::{BODY_BYTES_MAX, JsonPointerFuture, JsonPointerKey, json_pointer};
#[cfg(feature = "axum")]
pub use path::{PathKey, path};
pub use when::{When, WhenFuture};
#[cfg(feature = "idempotency")]
pub(crate) use whole::Whole;
