//! Requests that take effect without an answer, and requests that never arrive.

use bytes::Bytes;
use lock_core::idempotency::Begun;
use tests::proxy::Action;
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

use crate::support::{begin, behind_proxy, call_for, process, replay, run, state_of};

const FAULTS: [Action; 2] = [Action::SwallowReply, Action::DropRequest];

/// Looking and claiming are the first and the second call.
#[tokio::test]
async fn a_look_or_a_claim_without_an_answer_is_repeated_and_runs_once() {
    let server = RedisServer::start();
    for action in FAULTS {
        for call in 0..2 {
            let (proxy, once) = behind_proxy(&server).await;
            let key = format!("{action:?} {call}");
            let trap = proxy.trap(call_for(&once, &key, call), action);
            let execution = within("a run", run(&once, &key)).await;
            assert!(trap.has_sprung(), "{key}");
            assert_eq!(execution.replaced(), None, "{key}");
            assert_eq!(state_of(&server, &once, &key), Some('i'));
            execution.complete(Bytes::from_static(b"paid")).await.expect("in time");
            assert_eq!(once.stats().executed, 1);
            assert_eq!(replay(&process(&server.url()).await, &key).await, "paid");
        }
    }
}

#[tokio::test]
async fn a_completion_without_an_answer_is_repeated_and_written_once() {
    let server = RedisServer::start();
    for action in FAULTS {
        for without_payload in [false, true] {
            let (proxy, once) = behind_proxy(&server).await;
            let key = format!("{action:?} {without_payload}");
            let execution = run(&once, &key).await;
            let trap = proxy.trap(call_for(&once, &key, 0), action);
            let ended = if without_payload {
                within("an outcome without payload", execution.complete_without_payload()).await
            } else {
                within("a completion", execution.complete(Bytes::from_static(b"paid"))).await
            };
            ended.expect("it is written");
            assert!(trap.has_sprung(), "{key}");
            let stats = once.stats();
            assert_eq!((stats.completed, stats.stale_completions), (1, 0), "{key}");
            match begin(&process(&server.url()).await, &key).await {
                Ok(Begun::WithoutPayload) if without_payload => {}
                Ok(Begun::Replay(payload)) if !without_payload => assert_eq!(payload, "paid"),
                other => panic!("{key}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn an_abort_without_an_answer_is_repeated_and_the_record_is_gone() {
    let server = RedisServer::start();
    for action in FAULTS {
        let (proxy, once) = behind_proxy(&server).await;
        let key = format!("{action:?}");
        let execution = run(&once, &key).await;
        let trap = proxy.trap(call_for(&once, &key, 0), action);
        within("an abort", execution.abort()).await.expect("it is written");
        assert!(trap.has_sprung(), "{key}");
        assert_eq!(state_of(&server, &once, &key), None);
        run(&process(&server.url()).await, &key).await.abort().await.expect("in time");
    }
}

/// Whoever begins is gone before the claim is answered: it is taken back.
#[tokio::test]
async fn a_request_that_is_dropped_while_it_claims_leaves_no_record() {
    let server = RedisServer::start();
    let (proxy, once) = behind_proxy(&server).await;
    let trap = proxy.trap(call_for(&once, "k", 1), Action::HoldReply);
    let beginning = tokio::spawn({
        let once = once.clone();
        async move { begin(&once, "k").await }
    });
    trap.sprung().await;
    assert_eq!(state_of(&server, &once, "k"), Some('i'));
    beginning.abort();
    assert!(beginning.await.is_err());
    trap.release();
    eventually("the record is gone", || state_of(&server, &once, "k").is_none()).await;
    let execution = within("the next", run(&process(&server.url()).await, "k")).await;
    assert_eq!(execution.replaced(), None);
    execution.abort().await.expect("in time");
}
