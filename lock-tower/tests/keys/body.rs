//! Keys of a JSON body.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use lock_tower::key::json_pointer;

use crate::common::send;
use crate::fixture::{ask, json, layer};

#[tokio::test]
async fn a_json_value_is_the_key_and_the_handler_gets_the_body_as_it_was() {
    for (body, pointer, key) in [
        (r#"{ "sku" : "4:2" }"#, "buy:{/sku}", "buy:4%3A2"),
        (r#"{"sku":42}"#, "buy:{/sku}", "buy:42"),
        (r#"{"sku":"42"}"#, "buy:{/sku}", "buy:42"),
        (r#"{"a":[{"b~/":true}],"c:d":-1}"#, "of:{/a/0/b~0~1}:{/c:d}", "of:true:-1"),
        (r#""plain""#, "buy:{}", "buy:plain"),
    ] {
        assert_eq!(ask(json_pointer(pointer), json(body)).await.text, format!("{key} {body}"));
    }
}

#[tokio::test]
async fn a_body_without_a_usable_value_is_refused() {
    for (body, code) in [
        (r#"{"sku":null}"#, "lock_key_missing"),
        (r#"{"sku":""}"#, "lock_key_missing"),
        (r#"{"other":1}"#, "lock_key_missing"),
        ("", "lock_key_missing"),
        (r#"{"sku":[1]}"#, "lock_key_rejected"),
        (r#"{"sku":{}}"#, "lock_key_rejected"),
        (r#"{"sku":"a","sku":"b"}"#, "lock_key_ambiguous"),
        (r#"{"sku":"a","\u0073ku":"a"}"#, "lock_key_ambiguous"),
        (r#"{"sku":"#, "lock_body_invalid"),
        ("{\"sku\":\"\u{0}\"}", "lock_body_invalid"),
    ] {
        ask(json_pointer("buy:{/sku}"), json(body)).await.assert_problem(400, code);
    }
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let key = json_pointer("buy:{/0}").bytes_max(1 << 20);
    ask(key, json(deep)).await.assert_problem(400, "lock_key_rejected");
    ask(json_pointer("buy:{/sku}"), json(&b"{\"\xff\":1}"[..]))
        .await
        .assert_problem(400, "lock_body_invalid");
    let optional = || json_pointer("buy:{/sku}").optional();
    for body in ["", r#"{"other":1}"#, r#"{"sku":null}"#] {
        let answer = ask(optional(), json(body)).await;
        assert_eq!(answer.text, format!("- {body}").trim_end());
    }
    ask(optional(), json(r#"{"sku":""}"#)).await.assert_problem(400, "lock_key_missing");
}

#[tokio::test]
async fn a_list_that_a_handler_may_read_as_an_object_is_refused_even_where_the_value_is_optional() {
    // serde reads a struct from a list too: `[7]` has the id 7.
    for (template, body) in [
        ("order:{/id}", "[7]"),
        ("order:{/id}", "[7,1]"),
        ("order:{/id}", "[]"),
        ("order:{/id}", "7"),
        ("order:{/id}", r#""7""#),
        ("order:{/id}", "true"),
        ("order:{/order/id}", r#"{"order":[7]}"#),
        ("order:{/order/id}", "[[7]]"),
        ("order:{/order/id}", r#"[{"id":7}]"#),
        ("order:{/0/id}", "[[7]]"),
        ("order:{/orders/0/id}", r#"{"orders":[-7]}"#),
    ] {
        let answer = ask(json_pointer(template).optional(), json(body)).await;
        answer.assert_problem(400, "lock_key_rejected");
        ask(json_pointer(template), json(body)).await.assert_problem(400, "lock_key_rejected");
    }
    let both = json_pointer("order:{/shop}:{/id}").optional();
    ask(both, json("[7]")).await.assert_problem(400, "lock_key_rejected");
    // Nothing to read a value from.
    for (template, body) in [
        ("order:{/id}", "null"),
        ("order:{/order/id}", r#"{"order":null}"#),
        ("order:{/order/id}", "{}"),
        ("order:{/orders/0/id}", r#"{"orders":[]}"#),
    ] {
        let answer = ask(json_pointer(template).optional(), json(body)).await;
        assert_eq!(answer.text, format!("- {body}"));
    }
}

/// A body of unknown length.
fn chunks(frames: Vec<Result<Frame<Bytes>, std::io::Error>>) -> Request<Body> {
    json(Body::new(StreamBody::new(futures_util::stream::iter(frames))))
}

fn data(text: &'static str) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

#[tokio::test]
async fn a_body_over_the_bound_is_answered_with_413_announced_or_not() {
    let key = || json_pointer("buy:{/sku}").bytes_max(10);
    assert_eq!(ask(key(), json(r#"{"sku":42}"#)).await.text, r#"buy:42 {"sku":42}"#);
    ask(key(), json(r#"{"sku":423}"#)).await.assert_problem(413, "lock_body_too_large");
    let chunked = chunks(vec![data(r#"{"sku":"#), data("423}")]);
    ask(key(), chunked).await.assert_problem(413, "lock_body_too_large");
    // An announced one is not read at all.
    let frames = StreamBody::new(futures_util::stream::poll_fn(
        |_| -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> { panic!("read") },
    ));
    let announced = json(Body::new(Announced(frames)));
    ask(key(), announced).await.assert_problem(413, "lock_body_too_large");
}

#[tokio::test]
async fn a_limit_around_the_layer_is_told_apart_from_a_body_that_breaks_off() {
    let broken = chunks(vec![data("{"), Err(std::io::Error::other("reset"))]);
    ask(json_pointer("buy:{/sku}"), broken).await.assert_problem(400, "lock_body_incomplete");
    let limited = http_body_util::Limited::new(Body::from(r#"{"sku":42}"#), 5);
    let limited = json(Body::new(limited));
    ask(json_pointer("buy:{/sku}"), limited).await.assert_problem(413, "lock_body_too_large");
}

#[tokio::test]
async fn the_trailers_of_a_body_reach_the_handler_too() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("7"));
    let request =
        chunks(vec![data(r#"{"sku""#), data(":42}"), Ok(Frame::trailers(trailers.clone()))]);
    let handler = async |body: Body| {
        let all = body.collect().await.unwrap();
        let sum = all.trailers().and_then(|trailers| trailers.get("x-sum")).cloned();
        format!("{:?} {:?}", sum, all.to_bytes())
    };
    let app =
        Router::new().route("/", post(handler)).layer(layer().key(json_pointer("buy:{/sku}")));
    let answer = send(&app, request).await;
    assert_eq!(answer.text, r#"Some("7") b"{\"sku\":42}""#);
}

/// Says that it is larger than anybody wants.
struct Announced<B>(B);

impl<B: http_body::Body + Unpin> http_body::Body for Announced<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(cx)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(1 << 40)
    }
}
