//! Snapshots as server-sent events.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::Response;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use tokio::time::{Instant, sleep};

use super::desk::{Desk, Ended};
use super::view;
use crate::clock;
use crate::permits::Permit;

/// The longest life of a stream: a viewer who looks on is asked again who it is.
const STREAM_WITHIN: Duration = Duration::from_secs(300);

/// The header that turns off a buffer of nginx, which would hold events back.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// One viewer. Dropped with the connection, it leaves nothing behind.
struct Viewer<V> {
    desk: Arc<Desk<V>>,
    begun: Instant,
    first: bool,
    ended: Ended,
    _permit: Permit,
}

/// The stream. It goes on when the client reads, so a slow one has fewer events.
pub(super) fn answer<V: Send + Sync + 'static>(desk: Arc<Desk<V>>, permit: Permit) -> Response {
    let ended = desk.ended.clone();
    let viewer = Viewer { desk, begun: clock::now(), first: true, ended, _permit: permit };
    let events = stream::unfold(viewer, next);
    let mut answer = Response::new(Body::from_stream(events));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    answer
}

async fn next<V>(mut viewer: Viewer<V>) -> Option<(Result<Bytes, Infallible>, Viewer<V>)> {
    let first = std::mem::take(&mut viewer.first);
    let pause = async {
        if !first {
            sleep(viewer.desk.refresh).await;
        }
    };
    // A server that shuts down waits for its streams.
    if let Either::Left(_) = select(&mut viewer.ended, pin!(pause)).await {
        return None;
    }
    let now = clock::now();
    if now >= clock::after(viewer.begun, STREAM_WITHIN) {
        return None;
    }
    let event = event(&viewer.desk, now);
    Some((Ok(event), viewer))
}

/// The event of this moment, shared by all who ask at about the same time.
fn event<V>(desk: &Desk<V>, now: Instant) -> Bytes {
    let mut last = desk.last.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((made, event)) if now < clock::after(*made, desk.refresh / 2) => event.clone(),
        _ => {
            // JSON without line breaks, as the format demands.
            let event = Bytes::from(format!("retry: 2000\ndata: {}\n\n", view::snapshot(desk)));
            *last = Some((now, event.clone()));
            event
        }
    }
}
