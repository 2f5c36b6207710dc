//! Keys that are strange, and foreign values at them.

use std::time::Instant;

use tests::redis::{KeyInfo, RedisServer};
use tests::strange::strange_keys;
use tests::wait::eventually;

use crate::support::*;

/// F33 (V6, V8): each strange key is a lock of its own, under names with one hash tag and no byte
/// that a log or a tag could misread.
#[tokio::test]
async fn strange_keys_are_encoded_and_no_two_of_them_are_one_lock() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    let other = connect(&server.url(), ms(10_000)).await;
    let keys = strange_keys();
    let mut guards = Vec::new();
    for key in &keys {
        let guard = locks.lock(key).try_acquire().await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("{key} is the lock of another key")));
    }
    // A waiter at each, so that all names of each lock exist.
    let waiting: Vec<_> = keys.iter().map(|key| tokio::spawn(other.lock(key).acquire())).collect();
    for key in &keys {
        line_of(&server, key.as_str(), 1).await;
    }
    let names: Vec<_> = server.keys().into_iter().filter(|key| !key.is_clock()).collect();
    assert_eq!(names.len(), 3 * keys.len());
    for name in names {
        // The tag, as a cluster reads it: from the first `{` to the first `}` behind it.
        let (_, tag) = name.name.split_once('{').expect("a tag");
        let (tag, suffix) = tag.split_once('}').expect("the tag's end");
        assert!(keys.iter().any(|key| key.as_str() == tag), "{}", name.name);
        assert!(["", ":queue", ":due"].contains(&suffix), "{}", name.name);
        assert!(name.name.bytes().all(|byte| byte.is_ascii_graphic()), "{:?}", name.name);
        assert!(name.ttl_ms.is_some(), "{} never expires", name.name);
    }
    drop(guards);
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    nothing_left(&server, [locks, other]).await;
}

/// F33 (V6, V8): the name of an acquire is at the server once that has lasted, and until its end. It is
/// shown for the claim that holds the key alone.
#[tokio::test]
async fn what_a_long_hold_is_for_is_shown_until_its_end() {
    let server = RedisServer::start();
    let short = connect(&server.url(), ms(30_000)).await;
    let long = connect(&server.url(), ms(4_000)).await;
    let names = || {
        let keys = server.keys().into_iter().filter(|key| key.name.contains("}:name:"));
        keys.collect::<Vec<_>>()
    };
    let about = async || short.inspect("k").await.unwrap().holders[0].about.clone().unwrap();
    let held = short.lock("k").name("look at an order").await.unwrap();
    assert!(names().is_empty(), "a short hold has no request more");
    held.release().await.unwrap();
    for is_shared in [false, true] {
        let (asked, began) = (long.lock("k").name("pay an order"), Instant::now());
        let held = if is_shared { asked.shared() } else { asked }.await.unwrap();
        eventually("it has lasted", || !names().is_empty()).await;
        let [name] = &names()[..] else { panic!("one name for one claim") };
        assert!(name.ttl_ms.is_some_and(|left| left <= 40_000), "{name:?}");
        assert!(about().await.ends_with(" name=pay an order"), "{}", about().await);
        let seen = short.inspect("k").await.unwrap();
        let held_for = seen.holders[0].held_for.expect("it says since when");
        // It was renewed twice, the first time after a third of its lease.
        assert!(held_for > ms(600) && held_for < began.elapsed() + ms(100), "{held_for:?}");
        held.release().await.unwrap();
        eventually("its release deletes it", || names().is_empty()).await;
    }
    // One that was pushed the key counts from then on.
    let before = short.lock("k").await.unwrap();
    let waiting = tokio::spawn(long.lock("k").name("pay an order").acquire());
    line_of(&server, "k", 1).await;
    tokio::time::sleep(ms(2_000)).await;
    let began = Instant::now();
    before.release().await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    eventually("it has lasted", || !names().is_empty()).await;
    let held_for = short.inspect("k").await.unwrap().holders[0].held_for.unwrap();
    assert!(held_for < began.elapsed() + ms(100), "{held_for:?}");
    held.release().await.unwrap();
    let held = long.lock("k").name("pay an order").await.unwrap();
    eventually("it has lasted", || !names().is_empty()).await;
    assert!(short.force_release("k").await.unwrap());
    let next = short.lock("k").await.unwrap();
    assert!(!about().await.contains("name="), "it is of another");
    held.lost().await;
    eventually("it is gone with its claim", || names().is_empty()).await;
    next.release().await.unwrap();
    drop(held);
    nothing_left(&server, [short, long]).await;
}

/// The values that each of the keys is made to have, in turn.
const FOREIGN: [(&str, &[&str]); 4] = [
    ("list", &["RPUSH", "KEY", "a", "b"]),
    ("string", &["SET", "KEY", "hello"]),
    ("hash", &["HSET", "KEY", "field", "value"]),
    ("zset", &["ZADD", "KEY", "7", "member"]),
];

fn put(server: &RedisServer, name: &str, command: &[&str]) {
    let words: Vec<_> =
        command.iter().map(|word| if *word == "KEY" { name } else { *word }).collect();
    server.command::<redis::Value>(&words);
}

/// F34 (V6, V8): whatever foreign type is stored at one of the lock's keys or at the clock, an
/// acquire that comes to it fails at once and for good, and nothing is overwritten, nor left beside
/// it.
#[tokio::test]
async fn a_foreign_value_at_any_key_of_a_lock_is_a_clear_error_and_stays_as_it_is() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    let holder = connect(&server.url(), ms(10_000)).await;
    for name in ["lock:{k}", "lock:{k}:queue", "lock:{k}:due", "lock:clock"] {
        for (kind, command) in FOREIGN {
            // A string at the lock itself is the lock of another library, and no error.
            let ours =
                [("lock:{k}", "string"), ("lock:{k}:queue", "list"), ("lock:{k}:due", "hash")];
            if ours.contains(&(name, kind)) {
                continue;
            }
            let case = format!("a {kind} at `{name}`");
            // The line is only looked at behind a holder.
            let held = match name {
                "lock:{k}:queue" | "lock:{k}:due" => Some(holder.lock("k").await.unwrap()),
                _ => None,
            };
            server.command::<u64>(&["DEL", name]);
            put(&server, name, command);
            let before: Vec<u8> = server.command(&["DUMP", name]);
            let error = locks.lock("k").wait(ms(3_000)).await.expect_err(&case);
            assert!(error.is_unavailable() && !error.is_retryable(), "{case}: {error}");
            assert!(error.to_string().contains("no lock is stored"), "{case}: {error}");
            assert_eq!(server.command::<Vec<u8>>(&["DUMP", name]), before, "{case}");
            let stays = |key: &KeyInfo| key.ttl_ms.is_none() && !key.is_clock();
            let endless: Vec<_> = server.keys().into_iter().filter(stays).collect();
            assert!(endless.iter().all(|key| key.name == name), "{case}: {endless:?}");
            server.command::<u64>(&["DEL", name]);
            if let Some(held) = held {
                held.release().await.unwrap();
            }
            locks.lock("k").await.unwrap().release().await.unwrap();
            server.command::<()>(&["FLUSHALL"]);
        }
    }
    nothing_left(&server, [locks, holder]).await;
}

/// F34 (V3, V8): a foreign value that replaces a held lock ends the hold by its own clock; the
/// release says that it does not know, and leaves the value.
#[tokio::test]
async fn a_foreign_value_in_place_of_a_held_lock_ends_the_hold_and_stays() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(2_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let kept = locks.lock("kept").lease(ms(20_000)).await.unwrap();
    for name in ["lock:{k}", "lock:{kept}"] {
        server.command::<u64>(&["DEL", name]);
        put(&server, name, FOREIGN[0].1);
    }
    let error = kept.release().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no lock is stored"), "{error}");
    tests::wait::within("the loss", guard.lost()).await;
    assert!(guard.release().await.unwrap_err().is_not_held());
    eventually("it is quiet", || locks.stats().keys == 0).await;
    for name in ["lock:{k}", "lock:{kept}"] {
        assert_eq!(server.command::<u64>(&["LLEN", name]), 2);
        server.command::<u64>(&["DEL", name]);
    }
    nothing_left(&server, [locks]).await;
}

/// F34 (V3, V6, V8): with a foreign value in place of the clock a held lock is still renewed; who
/// waits behind it is told as soon as it needs a token, as any other acquire is, and nobody asks
/// for one in a row.
#[tokio::test]
async fn a_foreign_clock_stops_no_renewal_and_is_not_asked_for_in_a_row() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(6_000)).await;
    let other = connect(&server.url(), ms(6_000)).await;
    let ticking = other.lock("ticking").await.unwrap();
    let mut guard = locks.lock("k").await.unwrap();
    put(&server, "lock:clock", &["SET", "KEY", "hello"]);
    let renewals = locks.stats().renewals;
    eventually("renewals", || locks.stats().renewals >= renewals + 2).await;
    assert!(guard.is_held());
    // A grant comes with 32 tokens: the next in this process have theirs.
    for _ in 1..32 {
        let waiting = tokio::spawn(locks.lock("k").wait(ms(9_000)).acquire());
        eventually("it waits", || locks.stats().waiters == 1).await;
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
    }
    let waiting = tokio::spawn(locks.lock("k").wait(ms(9_000)).acquire());
    eventually("it waits", || locks.stats().waiters == 1).await;
    let asked = locks.stats().store_requests;
    guard.release().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error}");
    let ticks = other.stats().renewals;
    eventually("two leases have passed", || other.stats().renewals >= ticks + 6).await;
    let asked = locks.stats().store_requests - asked;
    assert!(asked < 10, "{asked} requests for one release and one acquire");
    assert_eq!(server.command::<String>(&["GET", "lock:clock"]), "hello");
    server.command::<u64>(&["DEL", "lock:clock"]);
    locks.lock("k").await.unwrap().release().await.unwrap();
    ticking.release().await.unwrap();
    nothing_left(&server, [locks, other]).await;
}

/// F34 (V4, V8): the lock of another library is waited for and never overwritten, with and
/// without an end.
#[tokio::test]
async fn the_lock_of_another_library_is_waited_for() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    server.command::<()>(&["SET", "lock:{k}", "somebody"]);
    let error = locks.lock("k").wait(ms(3_000)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(server.command::<String>(&["GET", "lock:{k}"]), "somebody");
    let waiting = tokio::spawn(locks.lock("k").acquire());
    line_of(&server, "k", 1).await;
    server.command::<u64>(&["DEL", "lock:{k}"]);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F34 (V4, V8): an operator may take a lock of another library away, as `DEL` would, and the next
/// of ours has it; something that is no lock at all is refused and stays.
#[tokio::test]
async fn a_forced_release_takes_the_lock_of_another_library_and_no_other_value() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    server.command::<()>(&["SET", "lock:{k}", "somebody"]);
    let waiting = tokio::spawn(locks.lock("k").acquire());
    line_of(&server, "k", 1).await;
    assert!(locks.force_release("k").await.unwrap());
    waiting.await.unwrap().unwrap().release().await.unwrap();
    server.command::<()>(&["SET", "lock:{k}", "somebody"]);
    assert!(locks.force_release("k").await.unwrap());
    assert_eq!(server.key("lock:{k}"), None);
    put(&server, "lock:{k}", FOREIGN[0].1);
    let error = locks.force_release("k").await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no lock is stored"), "{error}");
    assert_eq!(server.command::<u64>(&["LLEN", "lock:{k}"]), 2);
    server.command::<u64>(&["DEL", "lock:{k}"]);
    nothing_left(&server, [locks]).await;
}

/// F34 (V4, V6): nor do foreign values in place of the line or the clock keep a holder in.
#[tokio::test]
async fn a_forced_release_frees_the_key_whatever_is_in_the_way_of_the_next() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    for (name, command) in [("lock:{k}:queue", FOREIGN[0].1), ("lock:clock", FOREIGN[1].1)] {
        let guard = locks.lock("k").await.unwrap();
        server.command::<u64>(&["DEL", name]);
        put(&server, name, command);
        assert!(locks.force_release("k").await.unwrap());
        let lost = tests::wait::within("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), lock_core::error::LossReason::Taken);
        assert_eq!(server.key("lock:{k}"), None, "{name}");
        server.command::<u64>(&["DEL", name]);
    }
    nothing_left(&server, [locks]).await;
}
