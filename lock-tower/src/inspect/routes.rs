//! The routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum_core::response::Response;
use http::header::VARY;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use lock_core::Key;
use serde_json::json;

use super::accept::{self, Kind};
use super::answers::{bad_key, failed, json_answer, refuse};
use super::desk::{Desk, VIEWERS_MAX};
use super::{access, events, fleet, page, view};

/// Streams end by themselves before long.
const VIEWERS_RETRY_AFTER: Duration = Duration::from_secs(30);

type Shared<V> = State<Arc<Desk<V>>>;
type KeyPath = Result<Path<String>, PathRejection>;

pub(super) fn router<V, S>(desk: Arc<Desk<V>>) -> Router<S>
where
    V: Send + Sync + 'static,
    S: Clone + Send + Sync + 'static,
{
    Router::new()
        .route("/locks", get(list::<V>))
        .route("/locks/{key}", get(one::<V>).delete(release::<V>))
        // A segment more than any key has.
        .route("/locks/-/page.js", get(async || page::script()))
        .route("/locks/-/page.css", get(async || page::style()))
        .route_layer(from_fn_with_state(desk.clone(), access::check::<V>))
        .with_state(desk)
}

/// The busy keys of this process, or `?of=all` those of all.
async fn list<V>(State(desk): Shared<V>, uri: Uri, headers: HeaderMap) -> Response {
    let mut answer = match accept::preferred(&headers) {
        Kind::Html => page::document(),
        _ if uri.query() == Some("of=all") => fleet::answer(&desk).await,
        Kind::Json | Kind::Events => json_answer(&view::snapshot(&desk)),
    };
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    answer
}

/// One key. `events` are the busy ones of this process, for who accepts events, and else the key
/// of that name.
async fn one<V>(State(desk): Shared<V>, headers: HeaderMap, path: KeyPath) -> Response
where
    V: Send + Sync + 'static,
{
    let key = match parse(path) {
        Ok(key) => key,
        Err(detail) => return bad_key(&detail),
    };
    if key.as_str() == "events" && accept::preferred(&headers) == Kind::Events {
        return stream(desk);
    }
    match desk.locks.inspect(&key).await {
        Ok(seen) => json_answer(&view::inspection(&key, &seen)),
        Err(error) => failed(&error),
    }
}

fn stream<V: Send + Sync + 'static>(desk: Arc<Desk<V>>) -> Response {
    match desk.viewers.take(VIEWERS_MAX) {
        Some(permit) => events::answer(desk, permit),
        None => refuse(
            StatusCode::TOO_MANY_REQUESTS,
            "inspect_viewers",
            "too many look at the locks of this process already",
            Some(VIEWERS_RETRY_AFTER),
        ),
    }
}

async fn release<V>(
    State(desk): Shared<V>,
    Extension(viewer): Extension<Arc<V>>,
    headers: HeaderMap,
    path: KeyPath,
) -> Response {
    let Some(guard) = &desk.guard else {
        let detail = "this inspector only reads: no key is taken away through it";
        return refuse(StatusCode::FORBIDDEN, "inspect_read_only", detail, None);
    };
    if let Err(detail) = access::is_of_this_site(&headers) {
        return refuse(StatusCode::FORBIDDEN, "inspect_cross_site", &detail, None);
    }
    let key = match parse(path) {
        Ok(key) => key,
        Err(detail) => return bad_key(&detail),
    };
    if !guard(&viewer, &key) {
        let detail = "you may look at this key, and not take it away";
        return refuse(StatusCode::FORBIDDEN, "inspect_forbidden", detail, None);
    }
    match desk.locks.force_release(&key).await {
        Ok(released) => {
            tracing::warn!(%key, released, "a key was taken away through the inspector");
            json_answer(&json!({ "key": key.as_str(), "released": released }))
        }
        Err(error) => failed(&error),
    }
}

fn parse(path: KeyPath) -> Result<Key, String> {
    let Path(text) = path.map_err(|error| error.to_string())?;
    Key::from_encoded(text).map_err(|error| error.to_string())
}
