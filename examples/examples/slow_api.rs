//! An API that bears five calls of a tenant at a time, over all servers of a fleet.
//!
//! `cargo run -p examples --example slow_api [redis://127.0.0.1]`

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use lock_core::LockClient;
use lock_tower::LockLayer;
use lock_tower::key::path;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

const PERMITS: usize = 5;
static CALLS: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

async fn search(Path((tenant, text)): Path<(u64, String)>) -> String {
    MOST.fetch_max(CALLS.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(20)).await; // The slow API.
    CALLS.fetch_sub(1, Ordering::SeqCst);
    format!("{tenant}: {text}")
}

async fn server(url: &str) -> Result<Router, Box<dyn Error>> {
    let locks = LockClient::connect(url).await?;
    let layer = LockLayer::new(locks)
        .key(path("example-search:{tenant}").parsed::<u64>())
        .permits(PERMITS.try_into()?)
        .wait(Duration::from_secs(5));
    Ok(Router::new().route("/{tenant}/search/{text}", get(search)).route_layer(layer))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:example-search".to_owned());
    let fleet = [server(&url).await?, server(&url).await?];

    let mut requests = JoinSet::new();
    for number in 0..20 {
        let request = Request::get(format!("/7/search/{number}")).body(Body::empty())?;
        requests.spawn(fleet[number % 2].clone().oneshot(request));
    }
    while let Some(response) = requests.join_next().await {
        assert_eq!(response??.status(), StatusCode::OK);
    }
    let most = MOST.load(Ordering::SeqCst);
    println!("20 requests at 2 servers, at most {most} calls at a time");
    assert!(most <= PERMITS, "{most} calls at a time");
    Ok(())
}
