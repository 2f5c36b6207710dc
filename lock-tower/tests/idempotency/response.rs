//! Rules 7 and 8: which responses are stored, and what of them.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use lock_core::idempotency::Duplicates;
use lock_tower::idempotency::stored_by_default;
use tower::ServiceExt;

use crate::common::send;
use crate::fixture::{Runs, engine, once, order};

#[tokio::test(start_paused = true)]
async fn rule_7_what_depends_on_the_moment_is_not_stored_and_runs_again() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app =
        runs.shop(once(&engine), |run| (StatusCode::from_u16(run as u16 + 399).unwrap(), "x"));
    let not_stored = [401, 403, 407, 408, 409, 421, 423, 424, 425, 429];
    for status in 400..=599 {
        assert_eq!(runs.count(), status - 400);
        let key = format!("k{status}");
        let (first, kept) = (send(&app, order(&key)).await, records.len());
        assert_eq!(usize::from(first.status.as_u16()), status);
        assert!(!first.headers.contains_key("idempotent-replayed"));
        let stored = status < 500 && !not_stored.contains(&status);
        assert_eq!(stored_by_default(first.status), stored);
        if stored {
            let again = send(&app, order(&key)).await;
            assert_eq!((again.status, &*again.text), (first.status, "x"));
            assert_eq!(again.headers["idempotent-replayed"], "true");
            assert!(kept > 0);
        }
    }
    let stored = 100 - not_stored.len();
    assert_eq!(records.len(), stored, "of what is not stored nothing is left");
}

#[tokio::test(start_paused = true)]
async fn rule_7_a_retry_of_what_was_not_stored_runs() {
    let (engine, records) = engine();
    // The record is gone before the answer, so that a retry runs even if it does not wait.
    records.slow_ends(std::time::Duration::from_millis(500));
    let layer = once(&engine).duplicates(Duplicates::Reject);
    let app = Runs::default().shop(layer, |run| match run {
        1 => (StatusCode::INTERNAL_SERVER_ERROR, "broken"),
        2 => (StatusCode::TOO_MANY_REQUESTS, "busy"),
        3 => (StatusCode::SEE_OTHER, "done"),
        _ => unreachable!("it has run"),
    });
    for expected in ["broken", "busy", "done", "done"] {
        assert_eq!(send(&app, order("k")).await.text, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_7_a_route_chooses_what_it_stores() {
    let (engine, _) = engine();
    let refused = |_| (StatusCode::NOT_FOUND, "none");
    let layer = once(&engine).store_if(|head| head.status.is_success());
    let (runs, app) = (Runs::default(), Runs::default());
    let picky = runs.shop(layer, refused);
    let all = app.shop(once(&engine).store_everything(), |run| match run {
        1 => Err((StatusCode::INTERNAL_SERVER_ERROR, "once and for all")),
        _ => Ok("again"),
    });
    for _ in 0..2 {
        assert_eq!(send(&picky, order("a")).await.text, "none");
        assert_eq!(send(&all, order("b")).await.text, "once and for all");
    }
    assert_eq!((runs.count(), app.count()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn rule_8_headers_are_replayed_by_an_allow_list() {
    let (engine, _) = engine();
    let layer = once(&engine).replay_header("x-order");
    let app = Runs::default().shop(layer, |_| {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "text/csv"),
            ("content-encoding", "identity"),
            ("content-language", "en"),
            ("content-disposition", "inline"),
            ("content-location", "/orders/1"),
            ("location", "/orders/1"),
            ("etag", "\"1\""),
            ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("link", "</b>"),
            ("link", "</a>"),
            ("x-order", "1"),
            ("x-request-id", "7"),
            ("set-cookie", "session=1"),
            ("set-cookie", "theme=dark"),
            ("www-authenticate", "Basic"),
            ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("keep-alive", "timeout=5"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        (StatusCode::CREATED, headers, "sold")
    });
    let first = send(&app, order("k")).await;
    assert!(first.headers.contains_key("set-cookie"), "the first caller gets all");
    let again = send(&app, order("k")).await;
    assert_eq!((again.status, &*again.text), (StatusCode::CREATED, "sold"));
    let replayed: Vec<_> = again.headers.iter().map(|(n, v)| (n.as_str(), v)).collect();
    let replayed: Vec<_> = replayed.iter().map(|(n, v)| (*n, v.to_str().unwrap())).collect();
    let mut expected = vec![
        ("content-type", "text/csv"),
        ("content-encoding", "identity"),
        ("content-language", "en"),
        ("content-disposition", "inline"),
        ("content-location", "/orders/1"),
        ("location", "/orders/1"),
        ("etag", "\"1\""),
        ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("link", "</b>"),
        ("link", "</a>"),
        ("x-order", "1"),
        ("idempotent-replayed", "true"),
    ];
    // The length of a body in one piece is axum's own doing.
    expected.extend(Some(("content-length", "4")));
    assert_eq!(replayed, expected);
}

#[test]
#[should_panic(expected = "`set-cookie` is never replayed")]
fn rule_8_a_cookie_cannot_be_put_on_the_list() {
    let _ = once(&engine().0).replay_header("set-cookie");
}

#[tokio::test(start_paused = true)]
async fn a_body_of_many_frames_and_trailers_is_replayed_in_one_piece() {
    let (engine, _) = engine();
    let app = Runs::default().shop(once(&engine).replay_header("grpc-status"), |_| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.insert("set-cookie", HeaderValue::from_static("no"));
        let frames = ["one, ", "", "two, ", "three"].map(|text| Frame::data(Bytes::from(text)));
        let frames = frames.into_iter().chain([Frame::trailers(trailers)]);
        Body::new(StreamBody::new(stream::iter(frames.map(Ok::<_, std::io::Error>))))
    });
    for (run, trailers) in [("first", 2), ("again", 1)] {
        let response = app.clone().oneshot(order("k")).await.unwrap();
        // Over HTTP/1.1 it would leave no room for the trailers.
        assert!(!response.headers().contains_key("content-length"), "{run}");
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap().len(), trailers, "{run}");
        assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(body.to_bytes(), "one, two, three");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_response_is_replayed() {
    let (engine, _) = engine();
    let app = Runs::default().shop(once(&engine), |_| StatusCode::NO_CONTENT);
    send(&app, order("k")).await;
    let again = send(&app, order("k")).await;
    assert_eq!((again.status, &*again.text), (StatusCode::NO_CONTENT, ""));
    assert_eq!(again.headers["idempotent-replayed"], "true");
}

/// A stream of gRPC that fails at once has its status behind its head. It is no other answer than one
/// that has it there.
#[tokio::test(start_paused = true)]
async fn an_error_of_grpc_without_a_message_is_stored_as_one_in_the_head_is() {
    const UNAVAILABLE: &str = "14";
    const NOT_FOUND: &str = "5";
    let answers = |code: &'static str, message: &'static str, waits: bool| {
        move |_| {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            let message = Some(message).filter(|it| !it.is_empty()).map(Bytes::from);
            let frames = message.into_iter().map(Frame::data).chain([Frame::trailers(trailers)]);
            let frames: Vec<_> = frames.map(Ok::<_, std::io::Error>).collect();
            let waits = async move {
                if waits {
                    tokio::task::yield_now().await;
                }
                stream::iter(frames)
            };
            Body::new(StreamBody::new(futures_util::FutureExt::flatten_stream(waits)))
        }
    };
    for waits in [false, true] {
        for (code, message, expected) in
            [(UNAVAILABLE, "", 2), (UNAVAILABLE, "one", 1), (NOT_FOUND, "", 1)]
        {
            let (engine, _) = engine();
            let runs = Runs::default();
            let app = runs.shop(once(&engine), answers(code, message, waits));
            for _ in 0..2 {
                let response = app.clone().oneshot(order("k")).await.unwrap();
                let body = response.into_body().collect().await.unwrap();
                assert_eq!(body.trailers().unwrap()["grpc-status"], code);
            }
            assert_eq!(runs.count(), expected, "{code}, {message:?}, {waits}");
        }
    }
}
