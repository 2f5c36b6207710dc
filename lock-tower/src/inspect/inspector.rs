//! The options, and what all requests share.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use lock_core::{Key, LockClient};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::routes;

const REFRESH: Duration = Duration::from_secs(1);
const REFRESH_MIN: Duration = Duration::from_millis(100);
/// A stream notices a shutdown no later.
const REFRESH_MAX: Duration = Duration::from_secs(10);

const ROWS_MAX: usize = 200;

/// Streams of events that are open at a time.
const VIEWERS_MAX: usize = 32;

type Authenticate<V> = dyn Fn(&Parts) -> Result<V, Box<Response>> + Send + Sync;
type Guard<V> = dyn Fn(&V, &Key) -> bool + Send + Sync;

/// The inspector of one lock client; see the [module](crate::inspect).
///
/// `authenticate` says who looks, or with what a request is refused. It is asked for every request
/// and has its head, with whatever a middleware before it left in the extensions.
pub fn router<V, R>(
    locks: LockClient,
    authenticate: impl Fn(&Parts) -> Result<V, R> + Send + Sync + 'static,
) -> Inspector<V>
where
    V: Send + Sync + 'static,
    R: IntoResponse,
{
    let authenticate = move |request: &Parts| {
        authenticate(request).map_err(|refusal| Box::new(refusal.into_response()))
    };
    Inspector(Desk {
        locks,
        authenticate: Box::new(authenticate),
        guard: None,
        refresh: REFRESH,
        rows_max: ROWS_MAX,
        viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
        last: Mutex::default(),
    })
}

/// An inspector in the making; `V` is what its authentication knows of a viewer.
#[must_use = "nothing is served until `into_router` is merged into an application"]
pub struct Inspector<V>(Desk<V>);

/// What all requests share.
pub(super) struct Desk<V> {
    pub(super) locks: LockClient,
    pub(super) authenticate: Box<Authenticate<V>>,
    /// Who may take a key away; nobody without one.
    pub(super) guard: Option<Box<Guard<V>>>,
    pub(super) refresh: Duration,
    pub(super) rows_max: usize,
    pub(super) viewers: Arc<Semaphore>,
    /// The last snapshot that was streamed, and when it was made.
    pub(super) last: Mutex<Option<(Instant, Bytes)>>,
}

impl<V: Send + Sync + 'static> Inspector<V> {
    /// Lets viewers take a key away from its holder, each time `guard` says so (default: nobody
    /// may). See [`LockClient::force_release`] for what that does and does not do.
    pub fn allow_force_release(
        mut self,
        guard: impl Fn(&V, &Key) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.0.guard = Some(Box::new(guard));
        self
    }

    /// The time between two events (default 1 s; 100 ms to 10 s).
    pub fn refresh(mut self, every: Duration) -> Self {
        self.0.refresh = every.clamp(REFRESH_MIN, REFRESH_MAX);
        self
    }

    /// How many busy keys are listed (default 200, at least 1): those with the most waiters. The
    /// others are counted.
    pub fn rows_max(mut self, rows: usize) -> Self {
        self.0.rows_max = rows.max(1);
        self
    }

    /// The routes, to be merged into those of an application, or nested under a path.
    pub fn into_router<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        routes::router(Arc::new(self.0))
    }
}

impl<V: Send + Sync + 'static, S: Clone + Send + Sync + 'static> From<Inspector<V>> for Router<S> {
    fn from(inspector: Inspector<V>) -> Self {
        inspector.into_router()
    }
}

impl<V> fmt::Debug for Inspector<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("force_release", &self.0.guard.is_some())
            .field("refresh", &self.0.refresh)
            .field("rows_max", &self.0.rows_max)
            .finish_non_exhaustive()
    }
}
