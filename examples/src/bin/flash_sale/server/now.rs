//! The state of a server at this moment.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::App;
use super::counts::{Counts, counts};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Now {
    /// Buyers who wait for a lock.
    pub(crate) waiters: usize,
    /// Whether a buyer has one.
    pub(crate) holds: bool,
    pub(crate) counts: Counts,
}

pub(super) async fn now(State(app): State<App>) -> Json<Now> {
    let stats = app.locks.stats();
    let Json(counts) = counts(State(app)).await;
    Json(Now { waiters: stats.waiters, holds: stats.held > 0, counts })
}
