//! A server whose memory is full.

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{
    ClaimRecord, Claimed, Fingerprint, Idempotency, OnUnknown, RecordStore, Written,
};
use lock_core::redis::RedisRecords;
use tests::redis::RedisServer;

use crate::support::{id_of, ms, replay, run, state_of};

/// A record in flight lives on and can be aborted; an outcome is written when there is room.
#[tokio::test]
async fn when_memory_is_full_records_live_on_and_end_and_outcomes_are_kept_for_later() {
    let server = RedisServer::start();
    let records = RedisRecords::connect(&server.url()).await.expect("a server that answers");
    let once = Idempotency::new("tests", LockClient::memory(), records.clone());
    let (completed, aborted) = (run(&once, "completed").await, run(&once, "aborted").await);
    // The engine stores its fingerprints under a secret, so this record is the test's own.
    let (fingerprint, on_unknown) = (Fingerprint::new([1; 32]), OnUnknown::Refuse);
    let (id, token) = (id_of(&once, "extended"), aborted.token());
    let claim = ClaimRecord { fingerprint, token, ttl: ms(900_000), on_unknown };
    let claimed = Claimed::Claimed { replaced: None };
    assert_eq!(records.claim(id, &claim).await.expect("it is claimed"), claimed);
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);

    assert_eq!(records.claim(id, &claim).await.expect("it is extended"), claimed);
    let left: u64 = server.command(&["PTTL", &crate::support::record_key(id)]);
    assert!(left <= 900_000, "{left}");
    assert!(aborted.abort().await.is_ok());
    assert_eq!(state_of(&server, &once, "aborted"), None);
    for _ in 0..2 {
        assert_eq!(records.abort(id, token).await.expect("it is gone"), Written::Yes);
    }

    assert!(completed.complete(Bytes::from_static(b"paid")).await.unwrap_err().is_unavailable());
    assert_eq!(state_of(&server, &once, "completed"), Some('i'));
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    let paid = || state_of(&server, &once, "completed") == Some('d');
    tests::wait::eventually("the outcome is written", paid).await;
    assert_eq!(replay(&once, "completed").await, "paid");
}
