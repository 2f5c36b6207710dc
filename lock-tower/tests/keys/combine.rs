//! Keys that are made of others.

use axum::Router;
use axum::routing::any;
use http::HeaderValue;
use lock_core::Key;
use lock_tower::key::{Combine, FnKey, fixed, header, json_pointer, key_fn, query};
use lock_tower::{FencingToken, LockGuardExt};

use crate::common::send;
use crate::fixture::{ask, get, json, layer};

#[tokio::test]
async fn two_keys_join_and_the_first_that_skips_or_refuses_decides() {
    let both = || query("a:{a}").and(query("b:{b}"));
    assert_eq!(ask(both(), get("/?a=1:2&b=3")).await.text, "a:1%3A2:b:3");
    ask(both(), get("/?a=1")).await.assert_problem(400, "lock_key_missing");
    let skip = query("a:{a}").optional().and(query("b:{b}"));
    assert_eq!(ask(skip, get("/")).await.text, "-");
    let long = format!("/?a={0}&b={0}", "x".repeat(300));
    ask(both(), get(&long)).await.assert_problem(400, "lock_key_rejected");
}

#[tokio::test]
async fn the_other_key_is_taken_where_the_first_skips() {
    let either = || header("order:{x-order}").optional().or(query("order:{order}"));
    assert_eq!(ask(either(), get("/?order=7")).await.text, "order:7");
    let mut request = get("/?order=7");
    request.headers_mut().insert("x-order", HeaderValue::from_static("8"));
    assert_eq!(ask(either(), request).await.text, "order:8");
    ask(either(), get("/")).await.assert_problem(400, "lock_key_missing");
    let strict = header("order:{x-order}").or(query("order:{order}"));
    ask(strict, get("/?order=7")).await.assert_problem(400, "lock_key_missing");
}

#[tokio::test]
async fn two_pairs_of_keys_of_any_length_never_give_one_key() {
    // The segments that the client says, however many.
    fn said(name: &'static str) -> FnKey<impl Fn(&http::request::Parts) -> Key + Clone> {
        key_fn(move |head| Key::new(head.headers[name].to_str().unwrap()).unwrap())
    }
    let request = |a: &'static str, b: &'static str| {
        let mut request = get("/");
        request.headers_mut().insert("a", HeaderValue::from_static(a));
        request.headers_mut().insert("b", HeaderValue::from_static(b));
        request
    };
    let both = || said("a").and(said("b"));
    let (left, right) = (request("t:1", "2"), request("t", "1:2"));
    assert_eq!(ask(both(), left).await.text, "t%3A1:2");
    assert_eq!(ask(both(), right).await.text, "t:1:2");
    // One of a known length is enough to tell where the other ends.
    for (request, key) in [(request("t:1", "2"), "t:1:job:2"), (request("t", "1:2"), "t:job:1:2")] {
        let between = said("a").and(fixed("job")).and(said("b")).when(|_| true);
        let apart = ask(between, request).await.text;
        assert_eq!(apart.replace("%3A", ":"), key);
    }
    let known = fixed("x:y").and(said("a")).and(header("b:{b}").or(query("b:{b}")));
    assert_eq!(ask(known, request("t:1", "2")).await.text, "x:y:t:1:b:2");
    let unknown = said("a").and(header("b:{b}").or(query("b:{b}:{c}")));
    assert_eq!(ask(unknown, request("t:1", "2")).await.text, "t%3A1:b:2");
}

#[tokio::test]
async fn a_request_that_the_inner_layer_skips_is_told_of_no_lock_of_the_outer_one() {
    let token = async |token: Option<FencingToken>, lock: Option<LockGuardExt>| {
        format!("{} {}", token.is_some(), lock.map_or("-".into(), |lock| lock.0.key().to_string()))
    };
    let inner = layer().key(query("order:{order}").optional());
    let app = Router::new().route("/", any(token)).layer(inner).layer(layer().key(fixed("shop")));
    assert_eq!(send(&app, get("/?order=7")).await.text, "true order:7");
    assert_eq!(send(&app, get("/")).await.text, "false -");
}

#[tokio::test]
async fn a_body_that_no_key_was_taken_of_is_passed_on_unread() {
    let never = || json_pointer("buy:{/sku}").bytes_max(1).when(|_| false);
    assert_eq!(ask(never(), json("long text")).await.text, "- long text");
    let first = fixed("job").or(json_pointer("buy:{/sku}").bytes_max(1));
    assert_eq!(ask(first, json("long text")).await.text, "job long text");
}
