//! Keys of headers, of query parameters and by a closure.

use http::StatusCode;
use lock_core::Key;
use lock_tower::answer::Reject;
use lock_tower::key::{header, key_fn, query};

use crate::fixture::{ask, get, lines};

#[tokio::test]
async fn a_header_is_one_segment_and_must_stand_there_once() {
    let key = || header("account:{X-Account}");
    let request = |values: &[&[u8]]| match values {
        [] => lines("x-account", []),
        [one] => lines("x-account", [one]),
        [one, two, ..] => lines("x-account", [one, two]),
    };
    assert_eq!(ask(key(), request(&[b"a:1"])).await.text, "account:a%3A1");
    for (values, code) in [
        (&[][..], "lock_key_missing"),
        (&[&b""[..]], "lock_key_missing"),
        (&[b"a", b"a"], "lock_key_ambiguous"),
        (&[b"", b"a"], "lock_key_ambiguous"),
        (&[b"\xff"], "lock_key_rejected"),
        (&[b" a"], "lock_key_rejected"),
        (&[b"a\t"], "lock_key_rejected"),
    ] {
        ask(key(), request(values)).await.assert_problem(400, code);
    }
    let optional = || key().optional();
    assert_eq!(ask(optional(), request(&[])).await.text, "-");
    ask(optional(), request(&[b"a", b"b"])).await.assert_problem(400, "lock_key_ambiguous");
    ask(optional(), request(&[b""])).await.assert_problem(400, "lock_key_missing");
}

#[tokio::test]
async fn a_query_parameter_is_decoded_once_and_must_stand_there_once() {
    let key = || query("sku:{sku}");
    for (uri, found) in [
        ("/?a=1&sku=4+2%2F", "sku:4%202%2F"),
        ("/?s%6Bu=%34", "sku:4"),
        ("/?sku=%2534", "sku:%2534"),
        ("/?SKU=1&sku=2", "sku:2"),
        ("/?sku=%C3%A9", "sku:%C3%A9"),
    ] {
        assert_eq!(ask(key(), get(uri)).await.text, found, "{uri}");
    }
    for (uri, code) in [
        ("/", "lock_key_missing"),
        ("/?sku=", "lock_key_missing"),
        ("/?sku", "lock_key_missing"),
        ("/?sku=1&sku=2", "lock_key_ambiguous"),
        ("/?sku=1&s%6Bu=2", "lock_key_ambiguous"),
        ("/?sku=%FF", "lock_key_rejected"),
    ] {
        ask(key(), get(uri)).await.assert_problem(400, code);
    }
    let optional = || key().optional();
    assert_eq!(ask(optional(), get("/?a=1")).await.text, "-");
    ask(optional(), get("/?sku=")).await.assert_problem(400, "lock_key_missing");
}

#[tokio::test]
async fn several_values_make_one_key_and_each_must_be_there() {
    let key = || query("of:{tenant}:v-{order}");
    assert_eq!(ask(key(), get("/?order=2&tenant=1")).await.text, "of:1:v-2");
    ask(key(), get("/?order=2")).await.assert_problem(400, "lock_key_missing");
    assert_eq!(ask(key().optional(), get("/?order=2")).await.text, "-");
    let refused = ask(key().optional(), get("/?order=2&order=2")).await;
    refused.assert_problem(400, "lock_key_ambiguous");
}

#[tokio::test]
async fn a_closure_locks_skips_or_refuses() {
    let key = |outcome: fn() -> Option<Key>| key_fn(move |_| outcome());
    assert_eq!(ask(key(|| Key::new("job").ok()), get("/")).await.text, "job");
    assert_eq!(ask(key(|| None), get("/")).await.text, "-");
    let invalid = key_fn(|_| Key::new(""));
    ask(invalid, get("/")).await.assert_problem(400, "lock_key_rejected");
    let own = key_fn(|_| {
        Reject::new(StatusCode::GONE).with_code("sale_over").with_detail("the sale is over")
    });
    let answer = ask(own, get("/")).await;
    answer.assert_problem(410, "sale_over");
    assert_eq!(answer.problem()["detail"], "the sale is over");
}
