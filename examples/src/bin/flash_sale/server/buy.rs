//! One order: read the stock, think, write the stock.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{Extension, Path, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use lock_core::idempotency::Tx;
use lock_tower::FencingToken;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::App;
use super::refused::Refused;
use crate::clock;
use crate::once;
use crate::shop::{Sale, Written};

/// The order that a buyer sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) buyer: u32,
    /// The same for every click on the same order.
    pub(crate) order: String,
}

/// The receipt that a buyer gets, with an item or without.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) code: Code,
    /// How long the lock was waited for.
    pub(crate) waited_us: u64,
    /// The order that is recorded.
    pub(crate) order: Option<String>,
    pub(crate) left: i64,
    /// The fencing token of the lock that this was decided under.
    pub(crate) token: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    Sold,
    /// This buyer has an item already; it is the same order, or another one is not taken.
    SoldBefore,
    SoldOut,
}

/// When a request came in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival(Instant);

pub(super) async fn note_arrival(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Arrival(clock::now()));
    next.run(request).await
}

/// Runs under the lock of its sku, or under none with `--without-lock`. Nothing here but that lock
/// keeps two buyers from reading the same stock.
pub(super) async fn buy(
    State(app): State<App>,
    Path(sku): Path<String>,
    Extension(Arrival(arrival)): Extension<Arrival>,
    token: Option<FencingToken>,
    Json(Order { buyer, order }): Json<Order>,
) -> Result<Json<Receipt>, Refused> {
    let waited = clock::now().saturating_duration_since(arrival);
    let waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    let token = token.map(|FencingToken(token)| token);
    let number = token.map(lock_core::FencingToken::get);
    let seen = app.shop.look(&sku, buyer).await?.ok_or(Refused::NotOnSale)?;
    if seen.order.is_some() {
        let (code, order, left) = (Code::SoldBefore, seen.order, seen.left);
        return Ok(Json(Receipt { code, waited_us, order, left, token: number }));
    }
    if seen.left <= 0 {
        return Err(Refused::SoldOut { waited_us, left: seen.left, token: number });
    }

    tokio::time::sleep(app.hold).await;

    let sale = Sale { sku: &sku, buyer, order: &order, left: seen.left, token };
    let sold = match &app.once {
        Some(once) if token.is_some() => once::sell(once, Tx::of(app.shop.pool()), sale).await,
        _ => match app.shop.sell(sale).await? {
            Written::Done => Ok(order.clone()),
            Written::Stale => Err(Refused::Stale),
        },
    };
    if matches!(sold, Err(Refused::Stale)) {
        app.stale_writes.fetch_add(1, Ordering::Relaxed);
    }
    let (code, left) = (Code::Sold, seen.left - 1);
    Ok(Json(Receipt { code, waited_us, order: Some(sold?), left, token: number }))
}
