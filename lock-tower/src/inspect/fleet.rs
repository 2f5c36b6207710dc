//! The busy keys of all processes, as the store lists them.

use std::time::Duration;

use axum_core::response::Response;
use bytes::Bytes;
use lock_core::view::Inspections;
use serde_json::{Value, json};

use super::answers::{not_listed, text_answer};
use super::desk::Desk;
use super::view;
use crate::clock;

/// The store is asked no more often, however many look.
const ASKED_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn answer<V>(desk: &Desk<V>) -> Response {
    let mut last = desk.fleet.lock().await;
    let said = match &*last {
        Some((at, said)) if clock::now() < clock::after(*at, ASKED_EVERY) => said.clone(),
        _ => {
            let seen = desk.locks.inspect_all(desk.rows_max).await;
            let said = seen.map(|seen| all(&seen, desk.refresh.max(ASKED_EVERY)));
            *last = Some((clock::now(), said.clone()));
            said
        }
    };
    drop(last);
    match said {
        Ok(text) => text_answer("application/json", text),
        Err(error) => not_listed(&error),
    }
}

fn all(seen: &Inspections, refresh: Duration) -> Bytes {
    let keys = seen.keys.iter().map(|(key, seen)| view::inspection(key, seen));
    let all = json!({
        "keys": keys.collect::<Vec<Value>>(),
        "is_whole": seen.is_whole,
        "refresh_ms": view::ms(refresh),
    });
    all.to_string().into()
}
