//! One thing has one key: what is not the one spelling of a value is refused.

use std::fmt::{self, Display};
use std::str::FromStr;

use axum::Router;
use axum::extract::Path;
use axum::routing::{any, post};
use http::Request;
use lock_core::LockClient;
use lock_tower::key::{header, json_pointer, path, query};
use lock_tower::{LockGuardExt, LockLayer};
use uuid::Uuid;

use crate::common::{Probe, send, settle, spawn};
use crate::fixture::{ask, echo, get, json, layer, lines};

const NOT_CANONICAL: &str = "lock_key_not_canonical";
const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// `POST /pay/{id}` of a number, held up at a gate.
fn pay(layer: LockLayer<lock_tower::key::PathKey>, probe: &Probe) -> Router {
    let probe = probe.clone();
    let handler = move |Path(id): Path<u64>| async move {
        assert_eq!(id, 1);
        probe.visit().await
    };
    Router::new().route("/pay/{id}", post(handler)).route_layer(layer)
}

const SPELLINGS: [&str; 4] = ["/pay/1", "/pay/01", "/pay/+1", "/pay/%2b001"];

#[tokio::test(start_paused = true)]
async fn spellings_of_one_number_are_refused_but_for_one_before_the_handler_runs() {
    let probe = Probe::new();
    let app = pay(layer().key(path("order:{id}").parsed::<u64>()), &probe);
    let all = SPELLINGS.map(|uri| spawn(&app, Request::post(uri).body("".into()).unwrap()));
    settle().await;
    assert_eq!(probe.entered(), 1);
    probe.let_through(4);
    let [one, others @ ..] = all;
    assert_eq!(one.await.unwrap().text, "done");
    for other in others {
        let answer = other.await.unwrap();
        answer.assert_problem(400, NOT_CANONICAL);
        let detail = answer.problem()["detail"].to_string();
        assert!(detail.contains("`id`") && detail.contains("`u64`"), "{detail}");
        assert!(!detail.contains('1'), "the value is not repeated: {detail}");
    }
    assert_eq!(probe.entered(), 1);
}

/// A key without a type, as the docs have it: all four are inside at once.
#[tokio::test(start_paused = true)]
async fn a_key_without_a_type_is_the_spelling() {
    let probe = Probe::new();
    let app = pay(layer().key(path("order:{id}")), &probe);
    let all = SPELLINGS.map(|uri| spawn(&app, Request::post(uri).body("".into()).unwrap()));
    settle().await;
    assert_eq!(probe.inside(), 4);
    probe.let_through(4);
    for one in all {
        assert_eq!(one.await.unwrap().text, "done");
    }
}

#[tokio::test]
async fn each_extractor_takes_the_one_spelling_of_a_number() {
    let app = Router::new()
        .route("/pay/{id}", any(echo))
        .route_layer(layer().key(path("order:{id}").parsed::<u64>()));
    let of_header = || header("order:{x-order}").parsed::<u64>();
    let of_query = || query("order:{id}").parsed::<u64>();
    let of_body = || json_pointer("order:{/id}").parsed::<u64>();

    assert_eq!(send(&app, get("/pay/7")).await.text, "order:7");
    assert_eq!(send(&app, get("/pay/%37")).await.text, "order:7");
    assert_eq!(ask(of_header(), lines("x-order", [b"7"])).await.text, "order:7");
    assert_eq!(ask(of_query(), get("/?id=%37")).await.text, "order:7");
    for body in [r#"{"id":7}"#, r#"{"id":"7"}"#, r#"{"id":"\u0037"}"#] {
        assert_eq!(ask(of_body(), json(body)).await.text, format!("order:7 {body}"));
    }
    let large = r#"{"id":18446744073709551615}"#;
    assert_eq!(ask(of_body(), json(large)).await.text, format!("order:{} {large}", u64::MAX));

    for text in ["07", "+7", "%2b7", "7.0", "7e0", "-7", "0x7", "seven", "18446744073709551616"] {
        send(&app, get(&format!("/pay/{text}"))).await.assert_problem(400, NOT_CANONICAL);
        let asked = ask(of_query(), get(&format!("/?id={text}"))).await;
        asked.assert_problem(400, NOT_CANONICAL);
        let asked = ask(of_header(), lines("x-order", [text.as_bytes()])).await;
        asked.assert_problem(400, NOT_CANONICAL);
        let asked = ask(of_body(), json(format!(r#"{{"id":"{text}"}}"#))).await;
        asked.assert_problem(400, NOT_CANONICAL);
    }
    for number in ["7.0", "7e0", "70E-1", "-0", "-7", "18446744073709551616", "true"] {
        let asked = ask(of_body(), json(format!(r#"{{"id":{number}}}"#))).await;
        asked.assert_problem(400, NOT_CANONICAL);
    }
}

#[tokio::test]
async fn a_number_in_a_body_is_refused_untyped_where_it_has_several_spellings() {
    let key = || json_pointer("order:{/id}");
    for number in ["7.0", "7e0", "0.5", "-0"] {
        let asked = ask(key(), json(format!(r#"{{"id":{number}}}"#))).await;
        asked.assert_problem(400, NOT_CANONICAL);
    }
    // Beyond 64 bits a parser takes both for the same.
    for number in ["18446744073709551617", "18446744073709551618"] {
        let body = format!(r#"{{"id":{number}}}"#);
        assert_eq!(ask(key(), json(body.clone())).await.text, format!("order:{number} {body}"));
    }
}

#[tokio::test]
async fn a_uuid_is_taken_in_lower_case_with_hyphens() {
    let key = || header("order:{x-order}").parsed::<Uuid>();
    assert_eq!(ask(key(), lines("x-order", [ID.as_bytes()])).await.text, format!("order:{ID}"));
    let others = [
        ID.to_uppercase(),
        ID.replace('-', ""),
        format!("{{{ID}}}"),
        format!("urn:uuid:{ID}"),
        ID.replace('e', "E"),
    ];
    for other in others {
        assert!(other.parse::<Uuid>().is_ok(), "a handler would take {other}");
        let answer = ask(key(), lines("x-order", [other.as_bytes()])).await;
        answer.assert_problem(400, NOT_CANONICAL);
        assert!(answer.text.contains("`Uuid`"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_boolean_is_true_or_false() {
    let key = || query("job:{dry}").parsed::<bool>();
    assert_eq!(ask(key(), get("/?dry=true")).await.text, "job:true");
    assert_eq!(ask(key(), get("/?dry=false")).await.text, "job:false");
    for other in ["True", "TRUE", "1", "0", "yes", "+true"] {
        ask(key(), get(&format!("/?dry={other}"))).await.assert_problem(400, NOT_CANONICAL);
    }
    let key = || json_pointer("job:{/dry}").parsed::<bool>();
    assert_eq!(ask(key(), json(r#"{"dry":true}"#)).await.text, r#"job:true {"dry":true}"#);
    ask(key(), json(r#"{"dry":1}"#)).await.assert_problem(400, NOT_CANONICAL);
}

/// `A-7`, in whatever case it is written.
struct Sku(String);

impl FromStr for Sku {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('-') {
            Some(_) => Ok(Self(text.to_ascii_uppercase())),
            None => Err("no sku"),
        }
    }
}

impl Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[tokio::test]
async fn each_part_may_have_a_type_of_its_own() {
    let key = || query("of:{tenant}:{sku}:{n}").parsed::<u8>().part::<Sku>("sku");
    let key = || key().part::<String>("tenant");
    assert_eq!(ask(key(), get("/?tenant=01&sku=A-7&n=1")).await.text, "of:01:A-7:1");
    for (uri, name) in [("/?tenant=01&sku=a-7&n=1", "sku"), ("/?tenant=01&sku=A-7&n=01", "n")] {
        let answer = ask(key(), get(uri)).await;
        answer.assert_problem(400, NOT_CANONICAL);
        let detail = answer.problem()["detail"].to_string();
        assert!(detail.contains(&format!("`{name}`")), "{detail}");
    }
    let of_header = header("of:{X-Order}:{x-tenant}").part::<u8>("x-order");
    let mut request = lines("x-order", [b"01"]);
    request.headers_mut().insert("x-tenant", "01".parse().unwrap());
    ask(of_header, request).await.assert_problem(400, NOT_CANONICAL);
}

#[test]
#[should_panic(expected = "no `{order}`")]
fn a_type_for_a_part_that_is_not_there_is_refused_at_once() {
    let _ = query("order:{id}").part::<u64>("order");
}

#[tokio::test]
async fn a_typed_key_that_is_optional_is_skipped_only_where_it_is_missing() {
    let key = || header("order:{x-order}").parsed::<u64>().optional();
    assert_eq!(ask(key(), get("/")).await.text, "-");
    ask(key(), lines("x-order", [b"01"])).await.assert_problem(400, NOT_CANONICAL);
}

#[tokio::test]
async fn the_handler_sees_the_text_that_the_key_is_of() {
    let seen = async |Path(id): Path<String>, LockGuardExt(lock): LockGuardExt| {
        assert_eq!(
            lock.key().as_str(),
            lock_core::Key::from_segments(["order", &id]).unwrap().as_str()
        );
        id
    };
    let locks = LockClient::memory();
    let app = Router::new()
        .route("/pay/{id}", any(seen))
        .route("/all/{*id}", any(seen))
        .route_layer(LockLayer::new(locks).key(path("order:{id}")));
    for (uri, text) in [
        ("/pay/%31", "1"),
        ("/pay/%2531", "%31"),
        ("/pay/a%2Fb", "a/b"),
        ("/pay/a+b", "a+b"),
        ("/pay/a;v=1", "a;v=1"),
        ("/pay/..", ".."),
        ("/all/a%2Fb", "a/b"),
        ("/all/a//b/", "a//b/"),
        ("/all/a/../b", "a/../b"),
    ] {
        assert_eq!(send(&app, get(uri)).await.text, text, "{uri}");
    }
}
