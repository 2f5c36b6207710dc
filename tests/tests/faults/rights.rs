//! F31: users, passwords and rights.

use std::time::Duration;

use lock_core::LockClient;
use lock_core::error::{ConnectError, LossReason};
use tests::redis::{RedisOptions, RedisServer};
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};

use crate::support::*;

const DOCUMENT: &str = include_str!("../../../docs/redis-acl.md");

/// A password that appears nowhere by chance.
const PASSWORD: &str = "pw-7Hq2zX9";

/// The line that `docs/redis-acl.md` gives to users, with a password.
fn documented() -> String {
    let line = DOCUMENT.lines().find(|line| line.starts_with("user ")).expect("the ACL line");
    assert!(line.contains(">CHANGE-ME"), "{line}");
    line.replace("CHANGE-ME", PASSWORD)
}

/// A server on which the default user may do nothing, and `locks` what the document says.
fn server() -> RedisServer {
    RedisServer::with(RedisOptions::new().acl(["user default off".to_owned(), documented()]))
}

fn url(server: &RedisServer) -> String {
    server.url_as("locks", PASSWORD)
}

/// Ends every connection of `user`.
fn kick(server: &RedisServer, user: &str) {
    let _ = server.try_command::<u64>(&["CLIENT", "KILL", "USER", user]);
}

fn refused(error: &ConnectError, password: &str) -> String {
    let ConnectError::Store(fault) = error else { panic!("{error:?}") };
    assert!(!fault.is_transient(), "{error}");
    let text = everything(error);
    assert!(!text.contains(password), "the password is told: {text}");
    error.to_string()
}

/// F31 (V8): a wrong password is refused at once and for good, and is told nowhere.
#[tokio::test]
async fn a_wrong_password_is_refused_at_once_and_told_nowhere() {
    let server = server();
    let wrong = "pw-Wr0ng11";
    for url in [server.url_as("locks", wrong), server.url_as("nobody", wrong)] {
        let builder = LockClient::builder(&url);
        assert!(!format!("{builder:?}").contains(wrong));
        let start = Stopwatch::start();
        let error = builder.connect().await.unwrap_err();
        assert!(start.own() < SLACK, "{:?}", start.elapsed());
        refused(&error, wrong);
    }
    let error = LockClient::connect(&format!("redis://{}", server.addr())).await.unwrap_err();
    refused(&error, PASSWORD);
    assert_eq!(server.channels(), Vec::<String>::new());
}

/// F31 (V6, V8): no client, builder, guard or error repeats the password of its URL.
#[tokio::test]
async fn nothing_that_can_be_printed_repeats_the_password() {
    let server = server();
    let locks = LockClient::connect(&url(&server)).await.unwrap();
    let builder = locks.lock("k");
    let mut text = format!("{locks:?} {builder:?} {:?}", LockClient::builder(url(&server)));
    let acquire = builder.acquire();
    text += &format!("{acquire:?}");
    let guard = acquire.await.unwrap();
    text += &format!("{guard:?} {:?} {:?} {locks:?}", guard.handle(), guard.lost());
    text += &format!("{:?}", locks.inspect("k").await.unwrap());
    guard.release().await.unwrap();
    assert!(!text.contains(PASSWORD), "{text}");
    nothing_left(&server, [locks]).await;
}

/// F31 (V3, V4, V8): a password that is rotated while a client is connected ends its requests at
/// the next connect, at once and for good; a holder is told by its clock. When the right password
/// is back, so is the client.
#[tokio::test]
async fn a_rotated_password_is_permanent_until_it_is_put_right() {
    let server = server();
    let locks = connect(&url(&server), ms(2_000)).await;
    let guard = locks.lock("k").await.unwrap();
    server.command::<()>(&["ACL", "SETUSER", "locks", "resetpass", ">pw-Rotated1"]);
    kick(&server, "locks");
    let start = Stopwatch::start();
    let error = loop {
        // The cut may be seen before the refusal is.
        let error = locks.lock("other").wait(ms(5_000)).await.unwrap_err();
        if !error.is_retryable() {
            break error;
        }
    };
    assert!(start.own() < ms(2_000) + SLACK, "{:?}", start.elapsed());
    assert!(error.is_unavailable(), "{error}");
    let text = everything(&error);
    assert!(!text.contains(PASSWORD) && text.to_lowercase().contains("wrongpass"), "{text}");
    let lost = within("the loss", guard.lost()).await;
    assert_eq!(lost.reason(), LossReason::Expired);
    server.command::<()>(&["ACL", "SETUSER", "locks", &format!(">{PASSWORD}")]);
    eventually("the channel again", || server.channels().len() == 1).await;
    drop(guard);
    locks.lock("k").await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// The whole life of a lock: share, take, wait, be handed the key, renew, lose, inspect, try, give
/// up, and take it away from another.
async fn whole_life(server: &RedisServer, url: &str) {
    let (a, b) = (connect(url, ms(2_000)).await, connect(url, ms(2_000)).await);
    let readers = [a.lock("k").shared().await.unwrap(), b.lock("k").shared().await.unwrap()];
    assert!(a.lock("other").await.is_ok() && b.inspect("k").await.unwrap().holders.len() == 2);
    eventually("renewals", || a.stats().renewals + b.stats().renewals >= 4).await;
    for reader in readers {
        reader.release().await.unwrap();
    }
    let first = a.lock("k").await.unwrap();
    assert!(b.lock("k").try_acquire().await.unwrap().is_none());
    let gives_up = b.lock("k").wait(ms(3_000)).await.unwrap_err();
    assert!(gives_up.is_timeout(), "{gives_up}");
    // Its place is given back behind its back.
    line_of(server, "k", 0).await;
    let waiting = tokio::spawn(b.lock("k").acquire());
    line_of(server, "k", 1).await;
    let seen = a.inspect("k").await.unwrap();
    assert!(seen.holder().is_some() && seen.waiters.len() == 1);
    eventually("renewals", || a.stats().renewals >= 3).await;
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(b.stats().handoffs_remote, 1);
    // A line whose holder vanishes, and whose head is dead.
    let dead = connect(url, ms(2_000)).await;
    let gone = tokio::spawn({
        let dead = dead.clone();
        async move { dead.lock("k").await }
    });
    line_of(server, "k", 1).await;
    server.command::<u64>(&["HSET", "lock:{k}:due", &due_of(server)[0], "1000:900"]);
    server.command::<u64>(&["DEL", "lock:{k}"]);
    assert_eq!(within("the loss", second.lost()).await.reason(), LossReason::Taken);
    drop(second);
    let third = within("the next", gone).await.unwrap().unwrap();
    server.command::<()>(&["SCRIPT", "FLUSH"]);
    let after = tokio::spawn(a.lock("k").acquire());
    line_of(server, "k", 1).await;
    assert!(b.force_release("k").await.unwrap());
    assert_eq!(within("the loss", third.lost()).await.reason(), LossReason::Taken);
    after.await.unwrap().unwrap().release().await.unwrap();
    drop(third);
    assert!(!b.force_release("k").await.unwrap());
    nothing_left(server, [a, b, dead]).await;
}

fn due_of(server: &RedisServer) -> Vec<String> {
    server.command(&["HKEYS", "lock:{k}:due"])
}

/// The rights that the server refused to the user of the lock, by its log.
fn refusals(server: &RedisServer) -> Vec<String> {
    let log: Vec<Vec<redis::Value>> = server.command(&["ACL", "LOG"]);
    let object = |entry: &Vec<redis::Value>| {
        let pairs = entry.chunks_exact(2);
        let text = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).ok();
        pairs.filter(|pair| text(&pair[0]).as_deref() == Some("object")).find_map(|p| text(&p[1]))
    };
    log.iter().filter_map(object).collect()
}

/// F31 (V6, V8): the line of `docs/redis-acl.md` is enough for the whole life of a lock, and
/// nothing but `INFO`, which is optional, was refused on the way.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    let server = server();
    whole_life(&server, &url(&server)).await;
    for object in refusals(&server) {
        assert!(object == "info" || object.starts_with("client"), "refused: {object}");
    }
}

/// F31 (V6): with the two rights more that the document names, the same user serves a pool.
#[tokio::test]
async fn the_documented_rights_and_two_more_are_enough_for_a_pool() {
    let server = server();
    server.command::<()>(&["ACL", "SETUSER", "locks", "+ping", "+unwatch"]);
    let pool = deadpool_redis::Config::from_url(url(&server))
        .create_pool(Some(deadpool_redis::Runtime::Tokio1))
        .unwrap();
    let builder = LockClient::builder(url(&server)).redis_pool(pool.clone());
    let locks = builder.connect().await.unwrap();
    for _ in 0..3 {
        locks.lock("k").await.unwrap().release().await.unwrap();
    }
    for object in refusals(&server) {
        assert!(object == "info" || object.starts_with("client"), "refused: {object}");
    }
    drop(pool);
    // The probe of the pool at connect lives a second.
    eventually("the probe is gone", || server.keys().len() == 1).await;
    nothing_left(&server, [locks]).await;
}

/// F31 (V8): none of the documented rights can go: without it no client is made, and the error
/// names it.
#[tokio::test]
async fn each_documented_right_is_needed_and_named_at_connect_when_it_is_missing() {
    let server = server();
    let line = documented();
    let rights: Vec<_> = line.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
    assert!(rights.len() > 15, "{line}");
    for right in rights {
        server.command::<()>(&["ACL", "SETUSER", "locks", &format!("-{right}")]);
        let start = Stopwatch::start();
        let error = match LockClient::connect(&url(&server)).await {
            Ok(_) => panic!("connected without +{right}"),
            Err(error) => refused(&error, PASSWORD),
        };
        assert!(start.own() < SLACK, "{:?}", start.elapsed());
        assert!(error.to_lowercase().contains(right), "without +{right}: {error}");
        assert_eq!(
            error.matches(&format!("+{right} ")).count().min(2),
            usize::from(error.contains(&format!("+{right} "))),
            "named once: {error}"
        );
        server.command::<()>(&["ACL", "SETUSER", "locks", &format!("+{right}")]);
    }
    for (without, back, named) in
        [("resetkeys", "~lock:*", "lock:*"), ("resetchannels", "&lock:push:*", "lock:push:*")]
    {
        server.command::<()>(&["ACL", "SETUSER", "locks", without]);
        let error = LockClient::connect(&url(&server)).await.unwrap_err();
        let text = refused(&error, PASSWORD);
        assert!(text.contains(named), "without {back}: {text}");
        server.command::<()>(&["ACL", "SETUSER", "locks", back]);
    }
    let locks = LockClient::connect(&url(&server)).await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F31 (V3, V4, V8): a right that is taken away while a client is connected is an error of the
/// next request, at once and for good, that names it.
#[tokio::test]
async fn a_right_taken_away_at_runtime_is_permanent_and_named() {
    let server = server();
    let locks = connect(&url(&server), ms(2_000)).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    server.command::<()>(&["ACL", "SETUSER", "locks", "-time"]);
    let start = Stopwatch::start();
    let error = locks.lock("k").wait(Duration::from_secs(5)).await.unwrap_err();
    assert!(start.own() < SLACK, "{:?}", start.elapsed());
    assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains("time"), "{error}");
    server.command::<()>(&["ACL", "SETUSER", "locks", "+time"]);
    let guard = locks.lock("k").await.unwrap();
    // All keys are for who watches a fleet.
    let error = locks.inspect_all(9).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("scan"), "{error}");
    server.command::<()>(&["ACL", "SETUSER", "locks", "+scan"]);
    // What is no lock hides none.
    server.command::<u64>(&["HSET", "lock:{foreign}", "field", "value"]);
    assert_eq!(locks.inspect_all(9).await.unwrap().keys.len(), 1);
    server.command::<u64>(&["DEL", "lock:{foreign}"]);
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}
