//! The work of an order: it goes on the list, waits at its gate, and writes under its token.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use lock_tower::FencingToken;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tests::resource::{FencedRegister, patient};
use tokio::time::sleep;

use crate::Trouble;

/// The shop's own Redis, which no test cuts off.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    ledger: MultiplexedConnection,
    stock: FencedRegister,
}

impl Orders {
    pub(crate) async fn connect(url: &str) -> Result<Self, Trouble> {
        let ledger = patient(url).await?;
        Ok(Self { ledger, stock: FencedRegister::connect(url).await? })
    }

    async fn passes(&self, gate: &str) -> redis::RedisResult<()> {
        let mut ledger = self.ledger.clone();
        while !ledger.exists(format!("gate:{gate}")).await? {
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Takes one item out of stock; false where a later execution has done so.
    async fn sell(&self, token: Option<u64>) -> redis::RedisResult<bool> {
        match token {
            Some(token) => self.stock.write("stock", token, "orders").await,
            None => Ok(true),
        }
    }

    async fn note(&self, list: &str, what: &str) -> redis::RedisResult<()> {
        self.ledger.clone().rpush(list, what).await
    }
}

/// Places the order.
pub(crate) async fn order(
    State(orders): State<Orders>,
    token: Option<FencingToken>,
    headers: HeaderMap,
) -> Result<(StatusCode, String), StatusCode> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let token = token.map(|FencingToken(token)| token.get());
    // Random, so that no two runs give the same response.
    let id = format!("{:x} under {token:?}", fastrand::u128(..));
    let placed = async {
        orders.note("runs", &id).await?;
        if let Some(gate) = text("x-gate") {
            orders.passes(gate).await?;
        }
        let sold = orders.sell(token).await?;
        orders.note("ended", if sold { "sold" } else { "refused by the fence" }).await
    };
    placed.await.map_err(|_: redis::RedisError| StatusCode::BAD_GATEWAY)?;
    let bytes: usize = text("x-bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let filler = ".".repeat(bytes.saturating_sub(id.len()));
    Ok((StatusCode::CREATED, id + &filler))
}
