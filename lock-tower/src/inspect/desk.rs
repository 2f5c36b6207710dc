//! The state that all requests share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum_core::response::Response;
use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared};
use http::request::Parts;
use lock_core::error::ListError;
use lock_core::{Key, LockClient};
use tokio::time::Instant;

use crate::permits::Permits;

/// Streams of events that are open at a time.
pub(super) const VIEWERS_MAX: usize = 32;

/// The closure that says who looks, or refuses the request with a response.
pub(super) type Authenticate<V> = dyn Fn(&Parts) -> Result<V, Box<Response>> + Send + Sync;
/// Resolves once, when streams of events are to end.
pub(super) type Ended = Shared<BoxFuture<'static, ()>>;
/// Whether a viewer may take a key away.
pub(super) type Guard<V> = dyn Fn(&V, &Key) -> bool + Send + Sync;

/// The state that all requests share.
pub(super) struct Desk<V> {
    pub(super) locks: LockClient,
    pub(super) authenticate: Box<Authenticate<V>>,
    /// The closure that says who may take a key away; nobody may without one.
    pub(super) guard: Option<Box<Guard<V>>>,
    pub(super) refresh: Duration,
    pub(super) rows_max: usize,
    pub(super) viewers: Arc<Permits>,
    /// When all streams end; one for all of them.
    pub(super) ended: Ended,
    /// The last snapshot that was streamed, and when it was made.
    pub(super) last: Mutex<Option<(Instant, Bytes)>>,
    /// The store's last word about all processes, and when it came. Locked while it is asked: whoever comes
    /// meanwhile has the same answer.
    pub(super) fleet: tokio::sync::Mutex<Option<(Instant, Result<Bytes, ListError>)>>,
}
