//! Both routes against one lock.

use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use clap::Parser as _;
use lock_core::Key;
use tower::ServiceExt as _;

use super::*;
use crate::options::Options;
use crate::shop::Storage;

/// A shop with the lock, and nobody to watch it.
fn plan() -> Plan {
    Plan::new(&Options::parse_from(["flash-sale"]), Path::new("unused"))
}

async fn app(storage: &Storage) -> App {
    App {
        locks: LockClient::memory(),
        shop: Shop::open(storage.path()).await.unwrap(),
        once: None,
        hold: Duration::ZERO,
        stale_writes: Arc::default(),
    }
}

fn buy(sku: &str) -> Request<Body> {
    Request::post(format!("/buy/{sku}"))
        .header("content-type", "application/json")
        .body(Body::from(r#"{"buyer":1,"order":"o"}"#))
        .unwrap()
}

fn restock(sku: &str) -> Request<Body> {
    Request::post(format!("/restock/{sku}?items=3")).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn the_layer_and_the_macro_wait_for_the_same_lock_whatever_the_sku_is_made_of() {
    let storage = Storage::new(None).unwrap();
    let app = app(&storage).await;
    let routes = routes(app.clone(), &plan());
    let sku = "a%3Ab%2Fc%25%C3%A4";
    let stocked = routes.clone().oneshot(restock(sku)).await.unwrap();
    assert_eq!(stocked.status(), StatusCode::OK);

    let key = Key::from_segments(["buy", "a:b/c%ä"]).unwrap();
    let held = app.locks.lock(key).await.unwrap();
    let requests = [
        tokio::spawn(routes.clone().oneshot(buy(sku))),
        tokio::spawn(routes.clone().oneshot(restock(sku))),
    ];
    while app.locks.stats().waiters < 2 {
        assert!(requests.iter().all(|request| !request.is_finished()), "one did not wait");
        tokio::task::yield_now().await;
    }
    held.release().await.unwrap();
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(app.shop.books("a:b/c%ä").await.unwrap().left, 5);
}

#[tokio::test]
async fn a_buyer_gets_one_item_for_any_number_of_clicks_and_the_last_ones_get_none() {
    let storage = Storage::new(None).unwrap();
    let routes = routes(app(&storage).await, &plan());
    let status =
        async |request: Request<Body>| routes.clone().oneshot(request).await.unwrap().status();
    assert_eq!(status(buy("lamp")).await, StatusCode::NOT_FOUND);
    let nothing = Request::post("/restock/lamp?items=1").body(Body::empty()).unwrap();
    assert_eq!(status(nothing).await, StatusCode::OK);
    assert_eq!(status(buy("lamp")).await, StatusCode::OK);
    assert_eq!(status(buy("lamp")).await, StatusCode::OK);
    let other = Request::post("/buy/lamp")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"buyer":2,"order":"p"}"#))
        .unwrap();
    assert_eq!(status(other).await, StatusCode::GONE);
}

#[tokio::test]
async fn a_write_that_the_fence_refuses_is_counted_and_not_answered_as_a_sale() {
    let storage = Storage::new(None).unwrap();
    let app = app(&storage).await;
    let routes = routes(app.clone(), &plan());
    let stocked = routes.clone().oneshot(restock("lamp")).await.unwrap();
    assert_eq!(stocked.status(), StatusCode::OK);
    app.shop.raise_fence("lamp", i64::MAX).await;

    for request in [buy("lamp"), restock("lamp")] {
        let answer = routes.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(app.stale_writes.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(app.shop.books("lamp").await.unwrap().sold, 0);
}

#[tokio::test]
async fn a_sale_that_is_watched_exposes_our_metrics_with_buckets_and_without_the_key() {
    metrics::install().unwrap();
    let storage = Storage::new(None).unwrap();
    let routes = routes(app(&storage).await, &Plan { watched: true, ..plan() });
    for request in [restock("rare-shoe"), buy("rare-shoe")] {
        assert_eq!(routes.clone().oneshot(request).await.unwrap().status(), StatusCode::OK);
    }
    let request = Request::get("/metrics").body(Body::empty()).unwrap();
    let answer = routes.oneshot(request).await.unwrap();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    for line in [
        "# TYPE lock_wait_seconds histogram",
        "# HELP lock_hold_seconds ",
        "lock_wait_seconds_bucket{outcome=\"granted\",le=\"0.001\"}",
        "lock_hold_seconds_bucket{le=\"+Inf\"}",
        "lock_store_seconds_count{verb=\"attempt\",outcome=\"granted\"}",
        "lock_http_wait_seconds_bucket{outcome=\"granted\",le=\"4\"}",
        "lock_held ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("rare-shoe"), "{text}");
}
