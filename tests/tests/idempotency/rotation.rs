//! A secret that is replaced while processes of two deployments serve the same keys.

use bytes::Bytes;
use lock_core::idempotency::{Begun, Duplicates, Idempotency};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tokio::task::JoinSet;

use crate::support::{begin, ms, process};

const OLD: &str = "the old secret of these tests";
const NEW: &str = "the new secret of these tests";

/// So many that the locks of both secrets are the first to be taken for some.
const KEYS: usize = 16;

/// Each key is asked for by both clients at once, three times each: one runs.
async fn run_once_each(step: &str, clients: [&Idempotency; 2]) {
    let before: u64 = clients.iter().map(|once| once.stats().executed).sum();
    let mut requests = JoinSet::new();
    for number in 0..KEYS * 6 {
        let once = clients[number % 2].clone();
        let key = format!("{step}-{}", number / 6);
        requests.spawn(async move {
            match begin(&once, &key).await.expect("an answer") {
                Begun::Run(execution) => {
                    let payload = Bytes::from(format!("{key} under {}", execution.token()));
                    execution.complete(payload.clone()).await.expect("in time");
                    (key, payload)
                }
                Begun::Replay(payload) => (key, payload),
                other => panic!("{key}: {other:?}"),
            }
        });
    }
    let mut answers = within("all answers", requests.join_all()).await;
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), KEYS, "a key has two answers: {answers:?}");
    let executed: u64 = clients.iter().map(|once| once.stats().executed).sum();
    assert_eq!(executed - before, KEYS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_runs_once_at_each_step_of_a_rotation() {
    let server = RedisServer::start();
    let waits = |once: Idempotency| once.with_duplicates(Duplicates::Wait(ms(60_000)));
    let old = waits(process(&server.url()).await.with_secret(OLD));
    let both = || async { process(&server.url()).await.with_secret(NEW).with_old_secret(OLD) };
    let (both, both_too) = (waits(both().await), waits(both().await));
    let new = waits(process(&server.url()).await.with_secret(NEW));
    run_once_each("first", [&old, &both]).await;
    run_once_each("second", [&both, &both_too]).await;
    run_once_each("third", [&both_too, &new]).await;
    for once in [&old, &both, &both_too, &new] {
        eventually("nothing is busy", || once.stats().busy == 0).await;
        eventually("no lock is held", || once.locks().stats().keys == 0).await;
    }
}
