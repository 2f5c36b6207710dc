//! Rules 9 and 18: whose key it is, and who may see its response.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use lock_core::idempotency::{OnUnknown, Scope};
use lock_tower::IdempotencyLayer;
use lock_tower::answer::Reject;
use lock_tower::idempotency::HasScope;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::common::listen::listen;
use crate::common::{now, send, settle, spawn};
use crate::fixture::{Runs, engine, once, order, request};

fn per_tenant(engine: &lock_core::idempotency::Idempotency) -> IdempotencyLayer<HasScope> {
    IdempotencyLayer::new(engine.clone()).scope(|head| {
        let tenant = head.headers.get("x-tenant").and_then(|tenant| tenant.to_str().ok());
        tenant.map(|tenant| Scope::of(tenant.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    })
}

fn of(tenant: &str, key: &str) -> http::Request<Body> {
    request(key).header("x-tenant", tenant).body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rule_9_one_key_of_two_tenants_is_two_keys() {
    let (engine, _) = engine();
    let app = Runs::default().shop(per_tenant(&engine), |run| format!("run {run}"));
    assert_eq!(send(&app, of("a", "k")).await.text, "run 1");
    assert_eq!(send(&app, of("b", "k")).await.text, "run 2");
    // A tenant cannot make up a scope and a key that run together as another's.
    assert_eq!(send(&app, of("a:", "k")).await.text, "run 3");
    assert_eq!(send(&app, of("a", ":k")).await.text, "run 4");
    assert_eq!(send(&app, of("a", "k")).await.text, "run 1");
}

#[tokio::test(start_paused = true)]
async fn rule_9_a_request_without_a_scope_is_refused_as_the_closure_says() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(per_tenant(&engine), |_| "ran");
    send(&app, order("k")).await.assert_problem(401, "idempotency_scope_rejected");
    let layer = IdempotencyLayer::new(engine.clone()).scope(|_| {
        let reject = Reject::new(StatusCode::FORBIDDEN).with_code("no_tenant");
        Err::<Scope, _>(reject.with_detail("say who you are"))
    });
    let answer = send(&runs.shop(layer, |_| "ran"), order("k")).await;
    answer.assert_problem(403, "no_tenant");
    assert_eq!(answer.problem()["detail"], "say who you are");
    // An empty one is nobody's choice of a tenant.
    send(&runs.shop(per_tenant(&engine), |_| "ran"), of("", "k"))
        .await
        .assert_problem(500, "idempotency_misconfigured");
    assert_eq!(runs.count(), 0);
}

/// Everything that is said to `tracing`, as text.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Said {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut self.clone());
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn rule_9_neither_key_nor_scope_is_in_any_log() {
    let said = Said::default();
    let _said = listen(said.clone());
    let (engine, records) = engine();
    let app = Runs::default().shop(per_tenant(&engine), |_| "ran");
    for key in ["the-secret-key", "\"the-secret-key\"", "the-secret-key,", "\"the-secret-key"] {
        send(&app, of("the-tenant", key)).await;
    }
    records.fail(lock_core::backend::FaultKind::Transient);
    send(&app, of("the-tenant", "the-secret-key-2"))
        .await
        .assert_problem(503, "idempotency_unavailable");
    let said = said.0.lock().unwrap();
    assert!(said.contains("idempotency_key_repeated"), "something was said: {said}");
    for secret in ["the-secret-key", "the-tenant"] {
        // As text, and as a list of bytes.
        let bytes = format!("{:?}", secret.as_bytes());
        let bytes = bytes.trim_matches(['[', ']']);
        assert!(!said.contains(secret) && !said.contains(bytes), "{said}");
    }
}

async fn authenticated(request: Request, next: Next) -> Response {
    match request.headers().get("authorization") {
        Some(it) if it == "valid" => next.run(request).await,
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}

#[tokio::test(start_paused = true)]
async fn rule_18_a_replay_is_denied_when_authentication_denies() {
    let (engine, _) = engine();
    let app = Runs::default().shop(once(&engine), |_| "for the one who paid");
    let app = app.layer(from_fn(authenticated));
    let with = |secret| request("k").header("authorization", secret).body(Body::empty()).unwrap();
    assert_eq!(send(&app, with("valid")).await.text, "for the one who paid");
    let denied = send(&app, with("expired")).await;
    assert_eq!((denied.status, &*denied.text), (StatusCode::UNAUTHORIZED, ""));
    assert_eq!(send(&app, with("valid")).await.headers["idempotent-replayed"], "true");
}

/// Tenant `a` has left a record in some state. Another tenant that sends its key, and another
/// body, meets none of it.
#[tokio::test(start_paused = true)]
async fn rule_9_a_tenant_that_knows_the_key_of_another_learns_nothing_and_replaces_nothing() {
    for state in ["in flight", "done", "without_payload", "unknown"] {
        let (engine, _) = engine();
        let layer = per_tenant(&engine).on_unknown(OnUnknown::Refuse).store_everything();
        let runs = Runs::default();
        let counting = runs.clone();
        let handler = async move |tenant: HeaderMap| -> Response {
            counting.next();
            match (&tenant["x-tenant"] == "a", state) {
                (true, "in flight") => std::future::pending().await,
                (true, "without_payload") => {
                    ([("content-type", "text/event-stream")], "x").into_response()
                }
                (true, "unknown") => panic!("the handler's own"),
                _ => "done".into_response(),
            }
        };
        let app = Router::new().route("/orders", post(handler)).layer(layer);
        let first = spawn(&app, of("a", "k"));
        settle().await;
        let begun = now();
        let guess = request("k").header("x-tenant", "b").body(Body::from("another")).unwrap();
        let answer = send(&app, guess).await;
        assert_eq!((&*answer.text, begun.elapsed().as_millis()), ("done", 0), "{state}");
        assert!(!answer.headers.contains_key("idempotent-replayed"), "{state}");
        assert_eq!(runs.count(), 2, "{state}");
        // The record of the first is as it was.
        let code = match state {
            "in flight" => "idempotency_in_flight",
            "without_payload" => "idempotency_response_not_stored",
            "unknown" => "idempotency_outcome_unknown",
            _ => "",
        };
        assert_eq!(send(&app, of("a", "k")).await.code(), code, "{state}");
        assert_eq!(runs.count(), 2, "{state}");
        first.abort();
    }
}
