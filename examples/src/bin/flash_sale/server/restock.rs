//! New items on the shelf, under the lock that the buyers take.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{Path, Query, State};
use lock_core::distributed_lock;
use serde::{Deserialize, Serialize};

use super::App;
use super::refused::Refused;
use crate::shop::Written;

#[derive(Debug, Deserialize)]
pub(super) struct Delivery {
    items: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Restocked {
    items: u32,
    token: u64,
}

#[distributed_lock(key = "buy:{sku}", wait = "10s", retries = 1, guard = lock)]
pub(super) async fn restock(
    State(app): State<App>,
    Path(sku): Path<String>,
    Query(delivery): Query<Delivery>,
) -> Result<Json<Restocked>, Refused> {
    let token = lock.token();
    match app.shop.restock(&sku, delivery.items, token).await? {
        Written::Done => Ok(Json(Restocked { items: delivery.items, token: token.get() })),
        Written::Stale => {
            app.stale_writes.fetch_add(1, Ordering::Relaxed);
            Err(Refused::Stale)
        }
    }
}
