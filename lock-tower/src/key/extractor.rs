//! The seam between a request and its key.

use std::future::Future;

use http::request::Parts;
use http::{Request, StatusCode};
use lock_core::Key;
use lock_core::error::KeyError;

use crate::answer::Reject;

/// Derives the key of a request.
///
/// The extractors of this module implement it for every body; [`key_fn`](super::key_fn) makes one
/// of a closure. Implement it by hand where the key needs the body or an `.await`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` derives no key from a request with the body `{B}`",
    label = "no key extractor",
    note = "name a key: `LockLayer::new(locks).key(path(\"order:{{id}}\").parsed::<u64>())`; `json_pointer` wants a \
            body whose error is `Into<BoxError>`"
)]
pub trait KeyExtractor<B>: Clone + Send + Sync + 'static {
    /// The body that is passed on: `B`, or one that gives again what was read of it.
    type Body;
    /// The work of [`extract`](Self::extract).
    type Future: Future<Output = Extracted<Self::Body>>;

    /// Derives the key. Runs inside the response future, before any waiting.
    fn extract(&self, request: Request<B>) -> Self::Future;

    /// Passes a request on without looking at it, where another extractor has decided already.
    fn pass(&self, request: Request<B>) -> Request<Self::Body>;

    /// How many segments every key has, where that is always the same; `None` (default) where it
    /// may differ. Two that may differ are joined in another way, see
    /// [`Combine::and`](super::Combine::and).
    fn segments(&self) -> Option<usize> {
        None
    }
}

/// The finding of a [`KeyExtractor`], with the request to pass on.
#[derive(Debug)]
pub enum Extracted<B> {
    /// The request runs under the lock of this key.
    Lock(Key, Request<B>),
    /// The request runs without a lock.
    Skip(Request<B>),
    /// The request is answered without running it; its head is for the answer.
    Reject(Reject, Parts),
}

impl<B> Extracted<B> {
    pub(super) fn new(outcome: KeyOutcome, request: Request<B>) -> Self {
        match outcome {
            KeyOutcome::Lock(key) => Self::Lock(key, request),
            KeyOutcome::Skip => Self::Skip(request),
            KeyOutcome::Reject(reject) => Self::Reject(reject, request.into_parts().0),
        }
    }
}

/// The answer of [`key_fn`](super::key_fn)'s closure about a request; made of a key, an `Option`, a
/// `Result`, a status or a [`Reject`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOutcome {
    /// Runs under the lock of this key.
    Lock(Key),
    /// Runs without a lock.
    Skip,
    /// Is answered without running.
    Reject(Reject),
}

impl From<Key> for KeyOutcome {
    fn from(key: Key) -> Self {
        Self::Lock(key)
    }
}

/// `None` is [`KeyOutcome::Skip`].
impl From<Option<Key>> for KeyOutcome {
    fn from(key: Option<Key>) -> Self {
        key.map_or(Self::Skip, Self::Lock)
    }
}

/// An error is answered with 400 and the code `lock_key_rejected`.
impl From<Result<Key, KeyError>> for KeyOutcome {
    fn from(key: Result<Key, KeyError>) -> Self {
        key.map_or_else(|error| Self::Reject(error.into()), Self::Lock)
    }
}

impl From<StatusCode> for KeyOutcome {
    fn from(status: StatusCode) -> Self {
        Self::Reject(status.into())
    }
}

impl From<Reject> for KeyOutcome {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// Implements [`KeyExtractor`] for a type whose `outcome(&self, &mut Parts) -> KeyOutcome` needs
/// no more than the head of the request; the closure gives
/// [`segments`](KeyExtractor::segments).
macro_rules! extract_from_head {
    ($name:ident, |$key:ident| $segments:expr) => {
        impl<B> $crate::key::KeyExtractor<B> for $name {
            type Body = B;
            type Future = std::future::Ready<$crate::key::Extracted<B>>;

            fn extract(&self, request: http::Request<B>) -> Self::Future {
                let (mut parts, body) = request.into_parts();
                let outcome = self.outcome(&mut parts);
                let request = http::Request::from_parts(parts, body);
                std::future::ready($crate::key::Extracted::new(outcome, request))
            }

            fn pass(&self, request: http::Request<B>) -> http::Request<B> {
                request
            }

            fn segments(&self) -> Option<usize> {
                let $key = self;
                $segments
            }
        }
    };
}
pub(super) use extract_from_head;
