//! A payment endpoint: a request that is sent again pays once, and so do two devices of a buyer.
//!
//! `cargo run -p examples --example payment`

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_core::idempotency::{Idempotency, MemoryRecords, Scope};
use lock_core::{AcquireError, FencingToken, LockClient, distributed_lock};
use lock_tower::IdempotencyLayer;
use tower::ServiceExt as _;

#[derive(Clone)]
struct App {
    locks: LockClient,
    /// The table of orders: `UPDATE orders SET paid_under = :token WHERE id = :id AND …`
    paid: Arc<Mutex<HashMap<u64, FencingToken>>>,
}

impl FromRef<App> for LockClient {
    fn from_ref(app: &App) -> Self {
        app.locks.clone()
    }
}

/// The layer stops one key of a client from running twice, the lock two keys for one order.
#[distributed_lock(key = "example-payment:{id}", guard = lock)]
async fn pay(State(app): State<App>, Path(id): Path<u64>) -> Result<Answer, AcquireError> {
    if app.paid.lock().expect("no panic").contains_key(&id) {
        return Ok((StatusCode::CONFLICT, format!("order {id} is paid already")));
    }
    // Here the provider is called, with `order-{id}` as the idempotency key that it asks for.
    tokio::time::sleep(Duration::from_millis(20)).await;
    app.paid.lock().expect("no panic").insert(id, lock.token());
    Ok((StatusCode::CREATED, format!("order {id} is paid, under token {}", lock.token())))
}

type Answer = (StatusCode, String);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockClient::memory();
    let engine = Idempotency::new("shop", locks.clone(), MemoryRecords::new())
        .with_secret("32 random bytes of this service …");
    // The owner of the key; a real service asks its authentication.
    let once = IdempotencyLayer::new(engine).scope(|head| {
        let buyer = head.headers.get("x-buyer").and_then(|buyer| buyer.to_str().ok());
        buyer.map(|buyer| Scope::of(buyer.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    });
    let app = Router::new()
        .route("/orders/{id}/pay", post(pay).route_layer(once))
        .with_state(App { locks, paid: Arc::default() });
    let send = async |key: &str| {
        let request = Request::post("/orders/42/pay").header("x-buyer", "ada");
        let request = request.header("idempotency-key", key).body(Body::empty())?;
        let response = app.clone().oneshot(request).await?;
        let (status, body) = (response.status(), to_bytes(response.into_body(), 1_024).await?);
        println!("{key}: {status}: {}", String::from_utf8_lossy(&body));
        Ok::<_, Box<dyn Error>>((status, body))
    };

    // The phone hears nothing and sends its request again; the tablet has a key of its own.
    let (phone, again, tablet) =
        tokio::try_join!(send("\"phone-1\""), send("\"phone-1\""), send("\"tablet-1\""))?;
    assert_eq!(phone, again);
    let statuses = [phone.0, tablet.0];
    assert!(statuses.contains(&StatusCode::CREATED) && statuses.contains(&StatusCode::CONFLICT));
    Ok(())
}
