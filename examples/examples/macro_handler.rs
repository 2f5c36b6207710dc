//! The macro: a handler whose body runs under a lock made of its arguments.
//!
//! `cargo run -p examples --example macro_handler [redis://127.0.0.1]`

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_core::{AcquireError, LockClient, distributed_lock};
use tower::ServiceExt as _;

#[derive(Clone)]
struct App {
    locks: LockClient,
    shop: &'static str,
}

// Where the macro finds its client; `#[derive(FromRef)]` writes the same.
impl FromRef<App> for LockClient {
    fn from_ref(app: &App) -> Self {
        app.locks.clone()
    }
}

/// Without the lock in time the answer is an [`AcquireError`]: 409, with `Retry-After`.
#[distributed_lock(key = "example-pay:{order}", wait = "100ms", retries = 1, guard = lock)]
async fn pay(State(app): State<App>, Path(order): Path<u64>) -> Result<String, AcquireError> {
    Ok(format!("{} has order {order} paid once, under token {}", app.shop, lock.token()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockClient::connect(&url).await?;
    let app = Router::new()
        .route("/pay/{order}", post(pay))
        .with_state(App { locks: locks.clone(), shop: "the corner shop" });
    let request = |order: u64| Request::post(format!("/pay/{order}")).body(Body::empty());

    let paid = app.clone().oneshot(request(42)?).await?;
    assert_eq!(paid.status(), StatusCode::OK);
    let body = to_bytes(paid.into_body(), 1_024).await?;
    println!("{}", String::from_utf8_lossy(&body));

    // While somebody else pays order 42, the body does not run for it; order 43 is not held up.
    let holder = locks.lock("example-pay:42").await?;
    let busy = app.clone().oneshot(request(42)?).await?;
    assert_eq!(busy.status(), StatusCode::CONFLICT);
    println!("order 42: {}", busy.status());
    let free = app.oneshot(request(43)?).await?;
    assert_eq!(free.status(), StatusCode::OK);
    println!("order 43: {}", free.status());

    holder.release().await?;
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
