//! The view as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::time::sleep;

use super::hall::Hall;
use crate::clock;

/// Often enough for the eye.
const EVERY: Duration = Duration::from_millis(150);

/// A stream for one viewer. Nothing is asked of the servers while there is none.
pub(super) async fn events(State(hall): State<Arc<Hall>>) -> impl IntoResponse {
    let events = stream::unfold((hall, true), async |(hall, first)| {
        if !first {
            let mut stop = hall.stop.clone();
            tokio::select! {
                biased;
                () = stop.asked() => return None,
                () = sleep(EVERY) => {}
            }
        }
        let event = Bytes::from(format!("retry: 500\ndata: {}\n\n", event(&hall).await));
        Some((Ok::<_, Infallible>(event), (hall, false)))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(events))
}

/// The event of this moment, shared by all viewers.
async fn event(hall: &Hall) -> Arc<str> {
    let mut last = hall.last.lock().await;
    match &*last {
        Some((made, event)) if clock::now() < *made + EVERY / 2 => event.clone(),
        _ => {
            let event: Arc<str> = match hall.view().await {
                Ok(view) => serde_json::to_string(&view).unwrap_or_default().into(),
                Err(error) => {
                    eprintln!("flash-sale: nothing to see: {error}");
                    "null".into()
                }
            };
            *last = Some((clock::now(), event.clone()));
            event
        }
    }
}
