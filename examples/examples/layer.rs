//! The layer: requests for the same thing run one at a time, the others beside each other.
//!
//! `cargo run -p examples --example layer [redis://127.0.0.1]`

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Path;
use axum::http::header::RETRY_AFTER;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_core::LockClient;
use lock_tower::key::path;
use lock_tower::{FencingToken, LockLayer};
use tower::ServiceExt as _;

async fn buy(Path(sku): Path<String>, FencingToken(token): FencingToken) -> String {
    // Only one request for this sku is here, in all processes that share the store.
    format!("{sku} sold under token {token}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockClient::connect(&url).await?;
    let app: Router = Router::new().route("/buy/{sku}", post(buy)).route_layer(
        LockLayer::new(locks.clone())
            .key(path("example-layer:{sku}"))
            .wait(Duration::from_millis(100))
            .retries(1)
            .waiters_per_key(1_000),
    );
    let request = |sku: &str| Request::post(format!("/buy/{sku}")).body(Body::empty());

    let (first, second) =
        tokio::join!(app.clone().oneshot(request("lamp")?), app.clone().oneshot(request("lamp")?));
    for response in [first?, second?] {
        assert_eq!(response.status(), StatusCode::OK);
        let body = to_bytes(response.into_body(), 1_024).await?;
        println!("{}", String::from_utf8_lossy(&body));
    }

    // Somebody has the lamp in hand for longer than a request waits. The chair is free.
    let holder = locks.lock("example-layer:lamp").await?;
    let busy = app.clone().oneshot(request("lamp")?).await?;
    assert_eq!(busy.status(), StatusCode::CONFLICT);
    println!(
        "lamp: {}, come back after {} s",
        busy.status(),
        busy.headers()[RETRY_AFTER].to_str()?
    );
    let free = app.oneshot(request("chair")?).await?;
    assert_eq!(free.status(), StatusCode::OK);
    println!("chair: {}", free.status());

    holder.release().await?;
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
