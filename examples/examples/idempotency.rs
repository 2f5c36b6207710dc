//! The idempotency layer: an order that is sent again is not placed again.
//!
//! `cargo run -p examples --example idempotency`

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, MemoryRecords, Scope};
use lock_tower::{FencingToken, IdempotencyLayer};
use tower::ServiceExt as _;

async fn order(FencingToken(token): FencingToken, what: String) -> (StatusCode, String) {
    // Only one run of this order is here, in all processes that share the stores.
    (StatusCode::CREATED, format!("{what}, ordered under token {token}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // With a Redis: `LockClient::connect(url)` and `RedisRecords::connect(url)`.
    let locks = LockClient::memory();
    let engine = Idempotency::new("shop", locks.clone(), MemoryRecords::new())
        .with_secret("32 random bytes of this service …");
    // The owner of the key; a real service asks its authentication.
    let once = IdempotencyLayer::new(engine.clone()).scope(|head| {
        let tenant = head.headers.get("x-tenant").and_then(|tenant| tenant.to_str().ok());
        tenant.map(|tenant| Scope::of(tenant.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    });
    let app: Router = Router::new().route("/orders", post(order)).route_layer(once);
    let send = async |tenant: &str, key: &str, what: &'static str| {
        let request = Request::post("/orders").header("x-tenant", tenant);
        let request = request.header("idempotency-key", key).body(Body::from(what))?;
        let response = app.clone().oneshot(request).await?;
        let (status, replayed) =
            (response.status(), response.headers().contains_key("idempotent-replayed"));
        let body = to_bytes(response.into_body(), 1_024).await?;
        println!("{status}, replayed: {replayed}: {}", String::from_utf8_lossy(&body));
        Ok::<_, Box<dyn Error>>((status, body))
    };

    // The client hears nothing, and sends its order again; here even while the first runs.
    let (first, again) = tokio::try_join!(
        send("a", "\"8e03978e\"", "a lamp"),
        send("a", "\"8e03978e\"", "a lamp"),
    )?;
    assert_eq!(first, again);
    // Another order under the same key is a mistake; the key of another tenant is another key.
    let (status, _) = send("a", "\"8e03978e\"", "a chair").await?;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (status, _) = send("b", "\"8e03978e\"", "a chair").await?;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(engine.stats().executed, 2);

    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
