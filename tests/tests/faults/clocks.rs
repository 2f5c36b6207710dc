//! Wall clocks that jump.

use lock_core::error::LossReason;
use tests::checker::Checker;
use tests::redis::RedisServer;
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};

use crate::support::*;

// F16 without the right to set the machine's clock: a jump of the server's clock changes what is
// left of every TTL, and the distance between its `TIME` and the times that are stored. So the
// TTLs and the stored times are moved instead, by commands.

/// F16 (V1, V2, V6): forward. Every lock and every waiter's deadline is over at once: the loss is
/// noticed at the next renewal, and the waiters, taken for dead, are granted by their recheck.
#[tokio::test]
async fn a_server_clock_that_jumps_forward_is_noticed_at_the_next_renewal() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(3_000)).await;
    let other = connect(&server.url(), ms(3_000)).await;
    let holder = history.actor("holder", &locks);
    let waiter = history.actor("waiter", &other);
    let (guard, _) = holder.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.acquire("k", ms(9_000)).await.0 }
    });
    line_of(&server, "k", 1).await;
    let claims: Vec<String> = server.command(&["HKEYS", "lock:{k}:due"]);
    for claim in claims {
        server.command::<u64>(&["HSET", "lock:{k}:due", &claim, "1000:1500"]);
    }
    // In the past, so that no renewal comes first.
    assert_eq!(server.command::<u64>(&["PEXPIREAT", "lock:{k}", "1"]), 1);
    assert_eq!(holder.lost(&guard).await.reason(), LossReason::Taken);
    let next = within("the waiter", waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert!(waiter.write(&next).await && !holder.write(&guard).await);
    assert!(holder.release(guard).await.unwrap_err().is_not_held());
    waiter.release(next).await.unwrap();
    history.check(Checker::new());
    drop((holder, waiter));
    nothing_left(&server, [locks, other]).await;
}

/// F16 (V2, V5): forward, while the key is held: a live waiter whose deadline is over is passed
/// by, and has the free key at its next recheck.
#[tokio::test]
async fn a_waiter_that_a_jump_made_look_dead_is_granted_by_its_recheck() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let other = connect(&server.url(), ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let waiting = tokio::spawn(other.lock("k").acquire());
    line_of(&server, "k", 1).await;
    let claims: Vec<String> = server.command(&["HKEYS", "lock:{k}:due"]);
    server.command::<u64>(&["HSET", "lock:{k}:due", &claims[0], "1000:1500"]);
    let start = Stopwatch::start();
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(start.own() < RECHECK + SLACK, "{:?}", start.elapsed());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, other]).await;
}

/// F16 (V4, V8): back by an hour. The lock of a dead holder lives an hour longer; waiters end
/// with their budget, as `Timeout`.
#[tokio::test]
async fn waiters_stay_within_their_budget_when_a_server_clock_jumps_back() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(30_000)).await;
    let waiter = history.actor("waiter", &locks);
    let mut holder = history.worker("holder", &server.url(), ms(30_000));
    holder.ask("acquire k 9000").await.expect_success();
    holder.kill();
    assert_eq!(server.command::<u64>(&["PEXPIRE", "lock:{k}", "3600000"]), 1);
    let error = waiter.acquire("k", ms(700)).await.0.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    history.check(Checker::new().killed("holder"));
    server.command::<u64>(&["DEL", "lock:{k}"]);
    drop(waiter);
    nothing_left(&server, [locks]).await;
}

/// F16 (V1, V2): back by an hour. The last token is ahead of the clock: those after it go on from
/// it, over grants, renewals and hand-offs.
#[tokio::test]
async fn tokens_go_on_growing_when_a_server_clock_jumps_back() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(30_000)).await;
    let other = connect(&server.url(), ms(30_000)).await;
    let a = history.actor("a", &locks);
    let b = history.actor("b", &other);
    a.locks.lock("k").await.unwrap().release().await.unwrap();
    // Eight tokens a microsecond.
    let mut last = fence(&server, "k").unwrap() + 8 * 3_600_000_000;
    server.command::<()>(&["SET", "lock:clock", &last.to_string()]);
    for _ in 0..5 {
        let (guard, _) = a.acquire("k", ms(9_000)).await;
        let guard = guard.unwrap();
        assert!(guard.token().get() > last);
        assert!(a.write(&guard).await);
        let waiting = tokio::spawn({
            let b = b.clone();
            async move { b.acquire("k", ms(9_000)).await.0 }
        });
        line_of(&server, "k", 1).await;
        a.release(guard).await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(b.write(&guard).await);
        last = guard.token().get();
        b.release(guard).await.unwrap();
    }
    assert_eq!(history.check(Checker::new().exclusive()).writes_accepted, 10);
    drop((a, b));
    nothing_left(&server, [locks, other]).await;
}

/// F16 (V5): back by an hour. A dead waiter whose deadline lies an hour ahead is skipped, as
/// nobody listens on its channel.
#[tokio::test]
async fn a_dead_waiter_with_a_deadline_far_ahead_holds_nobody_up() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(30_000)).await;
    let other = connect(&server.url(), ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let mut dead = history.worker("dead", &server.url(), ms(30_000));
    dead.send("acquire k 20000");
    line_of(&server, "k", 1).await;
    dead.kill();
    let claims: Vec<String> = server.command(&["HKEYS", "lock:{k}:due"]);
    server.command::<u64>(&["HSET", "lock:{k}:due", &claims[0], "9999999999999:1500"]);
    let waiting = tokio::spawn(other.lock("k").acquire());
    line_of(&server, "k", 2).await;
    let start = Stopwatch::start();
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(start.own() < CLAIM_LEASE + RECHECK + SLACK, "{:?}", start.elapsed());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, other]).await;
}

/// F16 (V3): the clock was once beyond 2055, and tokens with it beyond what a number of Lua can tell
/// apart. No token is given twice in silence: each acquire is told the key, and how to mend it.
#[tokio::test]
async fn a_mark_beyond_what_a_token_can_be_is_an_error_that_says_how_to_mend_it() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(6_000)).await;
    let end = 1_u64 << 53;
    let set = |mark: u64| server.command::<()>(&["SET", "lock:clock", &mark.to_string()]);
    set(end - 200);
    let (first, second) = (locks.lock("a").await.unwrap(), locks.lock("b").await.unwrap());
    assert!(end - 200 < first.token().get() && first.token() < second.token());
    assert!(second.token().get() < end);
    second.release().await.unwrap();

    for mark in [end - 32, end, end + 1, 10 * end] {
        set(mark);
        let shared = locks.lock("k").shared().acquire();
        let permit = locks.lock("k").permits(2).acquire();
        let alone = locks.lock("k").acquire();
        for acquire in [alone, shared, permit] {
            let error = acquire.await.unwrap_err();
            assert!(error.is_unavailable() && !error.is_retryable(), "{mark}: {error:?}");
            let said = format!("{error} {:?}", std::error::Error::source(&error));
            assert!(said.contains("`DEL lock:clock`") && said.contains("2^53"), "{mark}: {said}");
        }
        // None of those that are asked together is granted.
        let many: Vec<_> = (0..200).map(|n| locks.lock(format!("m:{n}")).acquire()).collect();
        for one in many.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
            let error = one.await.unwrap().unwrap_err();
            assert!(error.is_unavailable() && !error.is_retryable(), "{mark}: {error:?}");
        }
        assert_eq!(server.command::<String>(&["GET", "lock:clock"]), mark.to_string());
        assert_eq!(server.key("lock:{k}"), None);
    }
    // A lock that is held goes on.
    let renewals = locks.stats().renewals;
    eventually("renewals", || locks.stats().renewals > renewals).await;
    assert!(first.is_held());
    first.release().await.unwrap();
    server.command::<u64>(&["DEL", "lock:clock"]);
    locks.lock("k").await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F16, F40 (V2): back by an hour, once. Hand-offs between two processes go on from the mark, and by
/// so little each that the clock catches up: from then on a restart without data takes no token back.
#[tokio::test]
async fn a_mark_that_is_ahead_of_the_clock_goes_on_by_little() {
    let server = RedisServer::start();
    let clients =
        [connect(&server.url(), ms(30_000)).await, connect(&server.url(), ms(30_000)).await];
    let mut guard = clients[0].lock("k").await.unwrap();
    let ahead = guard.token().get() + 8_000_000 * 3_600;
    server.command::<()>(&["SET", "lock:clock", &ahead.to_string()]);
    let handed = 20;
    for to in 1..=handed {
        let waiting = tokio::spawn(clients[to % 2].lock("k").acquire());
        line_of(&server, "k", 1).await;
        let token = guard.token();
        guard.release().await.unwrap();
        guard = within("the next holder", waiting).await.unwrap().unwrap();
        assert!(guard.token() > token, "a finding of safety: {} after {token}", guard.token());
    }
    guard.release().await.unwrap();
    let on = fence(&server, "k").expect("a mark") - ahead;
    // A renewal and a recheck reserve as well.
    assert!(on <= 4 * 512 * handed as u64, "{on} tokens for {handed} hand-offs");
    nothing_left(&server, clients).await;
}
