//! The lock of one request, and how an upgraded connection takes it along.

use std::fmt;
use std::future::{Future as _, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::{Extensions, Method, Response, StatusCode};
use lock_core::LockGuard;
use lock_core::error::LostError;
use lock_core::futures::Lost;
use smallvec::SmallVec;

use super::config::{Config, HoldUntil, OnLost};

/// The lock that a request holds.
pub(super) struct Hold {
    guard: Guard,
    loss: Loss,
}

enum Guard {
    /// Until the head of the response.
    Own(LockGuard),
    /// Until the end of the response, or of the connection that its handler makes of it.
    Shared(Arc<LockGuard>),
}

/// What a loss of the lock does to what runs under it.
enum Loss {
    /// Nothing before it has ended.
    Reported,
    // ## Unwatched => Watched
    /// It stops it, which has not waited for anything yet. Much never does, and needs no watch.
    Unwatched,
    /// It stops it.
    Watched(Lost),
}

impl Hold {
    pub(super) fn new(guard: LockGuard, config: &Config) -> Self {
        let guard = match config.hold_until {
            HoldUntil::ResponseHead => Guard::Own(guard),
            HoldUntil::ResponseBody => Guard::Shared(Arc::new(guard)),
        };
        let loss = match config.on_lost {
            OnLost::Cancel => Loss::Unwatched,
            OnLost::Report => Loss::Reported,
        };
        Self { guard, loss }
    }

    /// Polls what runs under the lock; one that is lost and stops that lets it run no step further.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        runs: impl FnOnce(&LockGuard, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LostError>> {
        let Self { guard, loss } = self;
        let lost = match loss {
            Loss::Reported => None,
            Loss::Unwatched => guard.why_lost(),
            Loss::Watched(lost) => ready_now(lost, cx),
        };
        if let Some(error) = lost {
            return Poll::Ready(Err(error));
        }
        let polled = runs(guard, cx);
        if polled.is_pending() && matches!(loss, Loss::Unwatched) {
            let mut lost = guard.lost();
            // It may be over since it was looked at.
            if let Some(error) = ready_now(&mut lost, cx) {
                return Poll::Ready(Err(error));
            }
            *loss = Loss::Watched(lost);
        }
        polled.map(Ok)
    }

    /// Lets the handler take the lock along.
    pub(super) fn offer(&self, extensions: &mut Extensions) {
        if let Guard::Shared(guard) = &self.guard {
            let mut offer = extensions.remove::<Offer>().unwrap_or_default();
            offer.0.push(Arc::downgrade(guard));
            extensions.insert(offer);
        }
    }

    /// Whether this would end with the head of a response that makes another connection of its own.
    pub(super) fn is_left_behind(&self) -> bool {
        matches!(&self.guard, Guard::Shared(guard) if Arc::strong_count(guard) == 1)
    }
}

fn ready_now(lost: &mut Lost, cx: &mut Context<'_>) -> Option<LostError> {
    match Pin::new(lost).poll(cx) {
        Poll::Ready(error) => Some(error),
        Poll::Pending => None,
    }
}

impl Deref for Hold {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl Deref for Guard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        match self {
            Self::Own(guard) => guard,
            Self::Shared(guard) => guard,
        }
    }
}

/// Whether the connection is the handler's from this response on. It has no body that says when
/// that ends.
pub(super) fn is_upgrade<R>(method: &Method, response: &Response<R>) -> bool {
    let status = response.status();
    let is_tunnel = method == Method::CONNECT && status.is_success();
    status == StatusCode::SWITCHING_PROTOCOLS || is_tunnel
}

/// The locks of the layers around a handler, the innermost last.
#[derive(Debug, Clone, Default)]
struct Offer(SmallVec<[Weak<LockGuard>; 1]>);

/// The lock of a request whose handler upgrades the connection, as to a web socket: move it into
/// the task that has the upgraded connection. The lock is given up when this is dropped and the
/// response has ended, whichever is later.
///
/// It is there under [`HoldUntil::ResponseBody`]. A handler that upgrades without it is refused, as
/// its lock would end before the connection begins: the client is answered 500
/// `lock_upgrade_unheld`, and the upgrade fails. With several layers around it, it is the locks of
/// all that hold until the body.
///
/// The lock can be lost while the connection is open, and nobody else can close that: wait for
/// [`lost`](Self::lost) beside the connection. Set a [`hold_limit`](crate::LockLayer::hold_limit),
/// as a client may keep its connection open for ever.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Empty;
/// use lock_tower::UpgradeLock;
///
/// /// A service without axum; with it, `UpgradeLock` is an extractor.
/// async fn socket(mut request: Request<Empty<Bytes>>) -> Response<Empty<Bytes>> {
///     let mut response = Response::new(Empty::new());
///     let Some(lock) = UpgradeLock::of(request.extensions()) else {
///         *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
///         return response;
///     };
///     let upgraded = hyper::upgrade::on(&mut request);
///     tokio::spawn(async move {
///         let Ok(socket) = upgraded.await else { return };
///         tokio::select! {
///             biased;
///             lost = lock.lost() => tracing::warn!(%lost, "a socket was closed"),
///             () = talk(socket) => {}
///         }
///     });
///     *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
///     response
/// }
/// # async fn talk(_: hyper::upgrade::Upgraded) {}
/// # let _ = socket;
/// ```
#[must_use = "the lock is given up with the response where this is dropped"]
pub struct UpgradeLock {
    guards: Vec<Arc<LockGuard>>,
}

impl UpgradeLock {
    /// The lock of the request with these extensions; `None` where no layer around the handler
    /// holds its lock until the end of the response.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let Offer(offered) = extensions.get()?;
        let guards: Vec<_> = offered.iter().filter_map(Weak::upgrade).collect();
        (!guards.is_empty()).then_some(Self { guards })
    }

    /// Resolves when one of the locks is over without being given up.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it; a later one resolves at once.
    pub async fn lost(&self) -> LostError {
        let mut each: Vec<Lost> = self.guards.iter().map(|guard| guard.lost()).collect();
        poll_fn(|cx| {
            let mut lost = each.iter_mut().map(|lost| Pin::new(lost).poll(cx));
            lost.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

impl fmt::Debug for UpgradeLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.guards.iter().map(|guard| guard.key())).finish()
    }
}
