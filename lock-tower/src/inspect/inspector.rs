//! The options.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum_core::response::IntoResponse;
use futures_util::future::{FutureExt as _, select};
use http::request::Parts;
use lock_core::{Key, LockClient};

use super::desk::Desk;
use super::routes;

const REFRESH: Duration = Duration::from_secs(1);
const REFRESH_MIN: Duration = Duration::from_millis(100);
const REFRESH_MAX: Duration = Duration::from_secs(10);

const ROWS_MAX: usize = 200;

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
    let ended = locks.closed().boxed().shared();
    Inspector(Desk {
        locks,
        authenticate: Box::new(authenticate),
        guard: None,
        refresh: REFRESH,
        rows_max: ROWS_MAX,
        viewers: Arc::default(),
        ended,
        last: Mutex::default(),
        fleet: tokio::sync::Mutex::default(),
    })
}

/// An inspector in the making; `V` is what its authentication knows of a viewer.
#[must_use = "nothing is served until `into_router` is merged into an application"]
pub struct Inspector<V>(Desk<V>);

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

    /// How many busy keys are listed (default 200, at least 1): of this process those with the most
    /// waiters, and the others are counted; of all processes those that the store tells first.
    pub fn rows_max(mut self, rows: usize) -> Self {
        self.0.rows_max = rows.max(1);
        self
    }

    /// Ends all streams of events, those to come too, as soon as `stop` resolves; they end when the
    /// lock client shuts down, whatever else is said here. For a service that is told to stop some
    /// time before that: its server waits for open streams. Of several, the first to resolve
    /// counts.
    ///
    /// It is polled by the streams alone, on their tasks.
    ///
    /// ```
    /// # use axum::http::StatusCode;
    /// # use lock_tower::inspect;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = lock_core::LockClient::memory();
    /// let (stop, mut stopped) = tokio::sync::watch::channel(false);
    /// let inspector = inspect::router(locks, |_| Ok::<_, StatusCode>(())).until(async move {
    ///     // A sender that is gone is a service that is.
    ///     let _ = stopped.wait_for(|stopped| *stopped).await;
    /// });
    /// // On the signal:
    /// stop.send_replace(true);
    /// # let _ = inspector;
    /// # Ok(()) }
    /// ```
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        let either = select(self.0.ended, stop.boxed()).map(drop);
        self.0.ended = either.boxed().shared();
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
