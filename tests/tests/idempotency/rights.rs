//! Users, passwords and rights at the server of the records.

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::error::ConnectError;
use lock_core::idempotency::Idempotency;
use lock_core::redis::RedisRecords;
use tests::redis::{RedisOptions, RedisServer};
use tests::said::everything;

use crate::support::{pool, process, replay, run};

const DOCUMENT: &str = include_str!("../../../docs/redis-acl.md");

/// A password that appears nowhere by chance.
const PASSWORD: &str = "pw-3Kd8vR1";

/// The lines that `docs/redis-acl.md` gives to users, with a password.
fn documented() -> Vec<String> {
    let of_cluster = |line: &str| line.contains("+cluster");
    let lines = DOCUMENT.lines().filter(|line| line.starts_with("user ") && !of_cluster(line));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    lines.into_iter().map(|line| line.replace("CHANGE-ME", PASSWORD)).collect()
}

fn server() -> RedisServer {
    let off = ["user default off".to_owned()];
    RedisServer::with(RedisOptions::new().acl(off.into_iter().chain(documented())))
}

fn url(server: &RedisServer) -> String {
    server.url_as("records", PASSWORD)
}

/// Runs, completes, replays, leaves an outcome without payload, aborts; with the scripts known and
/// unknown.
async fn whole_life(server: &RedisServer, once: &Idempotency, name: &str) {
    for key in ["a", "b"] {
        let key = format!("{name} {key}");
        run(once, &key).await.complete(Bytes::from_static(b"paid")).await.expect("in time");
        assert_eq!(replay(once, &key).await, "paid");
        run(once, &format!("{key} t")).await.complete_without_payload().await.expect("in time");
        server.command::<()>(&["SCRIPT", "FLUSH"]);
        run(once, &format!("{key} x")).await.abort().await.expect("in time");
    }
}

#[tokio::test]
async fn the_documented_rights_are_enough_with_a_connection_and_with_a_pool() {
    let server = server();
    let locks = server.url_as("locks", PASSWORD);
    let locks = LockClient::connect(&locks).await.expect("the documented rights of locks");
    let records = RedisRecords::connect(&url(&server)).await.expect("the documented rights");
    whole_life(&server, &Idempotency::new("tests", locks.clone(), records), "own").await;
    // The two rights more that the page names for a pool.
    server.command::<()>(&["ACL", "SETUSER", "records", "+ping", "+unwatch"]);
    let records = RedisRecords::with_pool(pool(&url(&server))).await.expect("the rights");
    whole_life(&server, &Idempotency::new("tests", locks, records), "pool").await;
}

#[tokio::test]
async fn each_documented_right_is_needed_and_named_at_connect_when_it_is_missing() {
    let server = server();
    let line = &documented()[1];
    let rights: Vec<_> = line.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
    assert!(rights.len() >= 6, "{line}");
    for right in rights {
        server.command::<()>(&["ACL", "SETUSER", "records", &format!("-{right}")]);
        let error = refused(RedisRecords::connect(&url(&server)).await);
        assert!(error.to_lowercase().contains(right), "without +{right}: {error}");
        server.command::<()>(&["ACL", "SETUSER", "records", &format!("+{right}")]);
    }
    server.command::<()>(&["ACL", "SETUSER", "records", "resetkeys"]);
    let error = refused(RedisRecords::connect(&url(&server)).await);
    assert!(error.contains("idem:*"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_for_good_and_told_nowhere() {
    let server = server();
    let wrong = "pw-Wr0ng22";
    let error = RedisRecords::connect(&server.url_as("records", wrong)).await;
    assert!(!refused(error).contains(wrong));
    let records = RedisRecords::connect(&url(&server)).await.expect("the right password");
    assert!(!format!("{records:?}").contains(PASSWORD));
}

#[track_caller]
fn refused(result: Result<RedisRecords, ConnectError>) -> String {
    let error = result.expect_err("a refusal");
    let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
    assert!(!fault.is_transient(), "{error}");
    let text = everything(&error);
    assert!(!text.contains(PASSWORD), "the password is told: {text}");
    text
}

/// A right that is taken away at run time: refused at once and for good. Which one it is, the
/// server tells at connect only.
#[tokio::test]
async fn a_right_taken_away_at_runtime_is_permanent() {
    let server = server();
    let locks = LockClient::memory();
    let records = RedisRecords::connect(&url(&server)).await.expect("the documented rights");
    let once = Idempotency::new("tests", locks, records);
    run(&once, "a").await.complete(Bytes::new()).await.expect("in time");
    server.command::<()>(&["ACL", "SETUSER", "records", "-get"]);
    let error = crate::support::begin(&once, "b").await.expect_err("a refusal");
    assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
    assert!(everything(&error).contains("refuses"), "{error}");
    server.command::<()>(&["ACL", "SETUSER", "records", "+get"]);
    run(&once, "b").await.abort().await.expect("in time");
}

/// A value that somebody else stored there is not overwritten, and not replayed.
#[tokio::test]
async fn a_foreign_value_at_a_record_is_refused_and_left_alone() {
    let server = RedisServer::start();
    let once = process(&server.url()).await;
    let key = crate::support::record_key(crate::support::id_of(&once, "k"));
    server.command::<()>(&["SET", &key, "not ours"]);
    let error = crate::support::begin(&once, "k").await.expect_err("a refusal");
    assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
    assert_eq!(server.command::<String>(&["GET", &key]), "not ours");
}
