//! Several processes, one key.

use bytes::Bytes;
use lock_core::idempotency::{Begun, Duplicates};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tokio::task::JoinSet;

use crate::support::{begin, id_of, ms, process, record_key, replay, run, state_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_duplicates_of_four_clients_one_runs_and_all_are_given_its_answer() {
    let server = RedisServer::start();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(process(&server.url()).await);
    }
    let mut requests = JoinSet::new();
    for number in 0..100 {
        let once = clients[number % 4].clone();
        requests.spawn(async move {
            match begin(&once, "k").await.expect("an answer") {
                Begun::Run(execution) => {
                    tokio::time::sleep(ms(50)).await;
                    let payload = Bytes::from(format!("ran under {}", execution.token()));
                    execution.complete(payload.clone()).await.expect("in time");
                    payload
                }
                Begun::Replay(payload) => payload,
                other => panic!("{other:?}"),
            }
        });
    }
    let payloads = within("all answers", requests.join_all()).await;
    assert!(payloads.iter().all(|payload| payload == &payloads[0]), "{payloads:?}");
    let executed: u64 = clients.iter().map(|once| once.stats().executed).sum();
    assert_eq!(executed, 1);
    for once in &clients {
        eventually("nothing is busy", || once.stats().busy == 0).await;
        eventually("no lock is held", || once.locks().stats().keys == 0).await;
    }
}

/// A waiter in another process is woken by the hand-off, not by a recheck, which would come half a
/// second later.
#[tokio::test]
async fn a_duplicate_in_another_process_is_woken_by_the_completion() {
    let server = RedisServer::start();
    let (once, other) = (process(&server.url()).await, process(&server.url()).await);
    let execution = run(&once, "k").await;
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { replay(&other, "k").await }
    });
    let line = format!("lock:{{idem:{}}}:queue", id_of(&once, "k"));
    eventually("it stands in line", || server.command::<u64>(&["LLEN", &line]) == 1).await;
    let before = other.locks().stats().handoffs_remote;
    execution.complete(Bytes::from_static(b"paid")).await.expect("in time");
    assert_eq!(within("the replay", waiting).await.expect("no panic"), "paid");
    assert_eq!(other.locks().stats().handoffs_remote, before + 1);
}

#[tokio::test]
async fn a_record_is_in_flight_then_done_and_lives_as_long_as_it_was_told() {
    let server = RedisServer::start();
    let once = process(&server.url()).await.with_record_ttl(ms(60_000));
    let execution = run(&once, "k").await;
    let key = record_key(id_of(&once, "k"));
    assert_eq!(state_of(&server, &once, "k"), Some('i'));
    let day = 24 * 60 * 60 * 1_000;
    let ttl = server.key(&key).and_then(|key| key.ttl_ms).expect("a time to live");
    assert!(ttl <= day && ttl > day - 60_000, "{ttl}");
    let rejecting = once.clone().with_duplicates(Duplicates::Reject);
    assert!(matches!(begin(&rejecting, "k").await, Ok(Begun::InFlight { .. })));
    execution.complete(Bytes::from_static(b"paid")).await.expect("in time");
    assert_eq!(state_of(&server, &once, "k"), Some('d'));
    let ttl = server.key(&key).and_then(|key| key.ttl_ms).expect("a time to live");
    assert!(ttl <= 60_000, "{ttl}");
}

/// A server that is restarted without its data has forgotten, and says so by running again; the
/// connection comes back by itself, and so do the scripts.
#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let mut server = RedisServer::start();
    let once = process(&server.url()).await;
    run(&once, "k").await.complete(Bytes::from_static(b"paid")).await.expect("in time");
    server.kill();
    let error = begin(&once, "k").await.expect_err("no server");
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    server.restart();
    let execution = run(&once, "k").await;
    execution.complete(Bytes::from_static(b"again")).await.expect("in time");
    assert_eq!(replay(&once, "k").await, "again");
}
