//! Every key says what it names.

use std::panic::catch_unwind;

use axum::Router;
use axum::routing::post;
use http::{HeaderValue, Request};
use lock_core::LockClient;
use lock_tower::LockLayer;
use lock_tower::key::{HeaderKey, header, json_pointer, path, query};

use crate::common::{Probe, send, settle, spawn};

#[test]
fn a_template_that_begins_with_a_hole_is_refused_with_what_to_write() {
    let cases: [(fn(), &str); 6] = [
        (|| drop(header("x-order")), r#"write `header("order:{x-order}")`"#),
        (|| drop(header("{x-order}")), r#"write `header("order:{x-order}")`"#),
        (|| drop(query("{a}:{b}")), r#"write `query("order:{a}:{b}")`"#),
        (|| drop(path("{id}")), r#"write `path("order:{id}")`"#),
        (|| drop(json_pointer("/sku")), r#"write `json_pointer("order:{/sku}")`"#),
        (|| drop(path("order-{id}")), "first segment must be fixed text"),
    ];
    for (make, reason) in cases {
        let panicked = catch_unwind(make).unwrap_err();
        let message = panicked.downcast::<String>().unwrap();
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_name_that_cannot_be_is_refused_at_once() {
    let cases: [fn(); 3] = [
        || drop(header("order:{x order}")),
        || drop(json_pointer("order:{sku}")),
        || drop(json_pointer("order:{/~2}")),
    ];
    for make in cases {
        assert!(catch_unwind(make).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn two_routes_that_read_one_header_share_a_lock_only_by_the_same_prefix() {
    let locks = LockClient::memory();
    let probe = Probe::new();
    let route = |key: HeaderKey| {
        let probe = probe.clone();
        let layer = LockLayer::new(locks.clone()).key(key).wait(std::time::Duration::ZERO);
        post(move || probe.clone().visit()).layer(layer)
    };
    let app = Router::new()
        .route("/pay", route(header("payment:{x-id}")))
        .route("/ship", route(header("parcel:{x-id}")))
        .route("/refund", route(header("payment:{x-id}")));
    let request = |uri: &str| {
        let mut request = Request::post(uri).body("".into()).unwrap();
        request.headers_mut().insert("x-id", HeaderValue::from_static("7"));
        request
    };
    let inside = ["/pay", "/ship"].map(|uri| spawn(&app, request(uri)));
    settle().await;
    assert_eq!(probe.inside(), 2);
    send(&app, request("/refund")).await.assert_problem(409, "lock_timeout");
    probe.let_through(2);
    for one in inside {
        assert_eq!(one.await.unwrap().text, "done");
    }
}
