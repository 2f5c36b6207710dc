//! The pushes: who is told what.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use lock_core::backend::Claim;
use lock_core::options::Fairness;
use lock_core::redis::Redis;
use tests::proxy::Proxy;
use tests::redis::RedisServer;
use tests::support::connect;
use tests::wait::eventually;

use crate::support::*;

/// Whether something was pushed to it that it has not looked at.
async fn is_told(asker: &mut Asker) -> bool {
    let mut changed = pin!(asker.claim.changed());
    poll_fn(|cx| Poll::Ready(changed.as_mut().poll(cx).is_ready())).await
}

#[tokio::test]
async fn all_who_hold_a_key_are_told_when_somebody_begins_to_wait() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    for (mode, wants) in [(READER, WRITER), (of(2), of(2)), (of(2), READER)] {
        let mut held = [claim(&one, mode), claim(&two, mode)];
        for holder in &mut held {
            assert!(!holder.takes().await.wanted);
        }
        let mut waiter = claim(&two, wants);
        waiter.waits().await;
        for holder in &mut held {
            within("a push", holder.claim.changed()).await;
            assert!(holder.renews().await.wanted);
        }
        waiter.leaves().await;
        for holder in &mut held {
            assert!(!holder.renews().await.wanted);
            holder.releases().await;
        }
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Each by a push of its own; and that others want the key if any are left behind them, not if
/// those who stand behind were let in as well.
#[tokio::test]
async fn readers_that_are_let_in_together_are_each_told_and_whether_the_key_is_wanted() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    for is_wanted in [false, true] {
        let mut writer = claim(&one, WRITER);
        writer.takes().await;
        let mut readers = [(); 3].map(|()| claim(&two, READER));
        for reader in &mut readers {
            reader.waits().await;
        }
        let mut last = claim(&two, WRITER);
        if is_wanted {
            last.waits().await;
        }
        writer.releases().await;
        for reader in &mut readers {
            reader.is_handed(&two).await;
        }
        // An answer over the connection that pushes come over: they came before it.
        let mut other = claim_on(&two, "other", WRITER, LONG);
        other.takes().await;
        other.releases().await;
        for reader in &mut readers {
            assert_eq!(is_told(reader).await, is_wanted);
            assert_eq!(reader.renews().await.wanted, is_wanted);
            reader.releases().await;
        }
        if is_wanted {
            last.is_handed(&two).await;
            last.releases().await;
        }
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Nobody is told of that: who waits asks, long before the next renewal would.
#[tokio::test]
async fn readers_come_in_soon_after_a_writer_of_another_process_gave_up() {
    let server = RedisServer::start();
    let (one, two) = (connect(&server.url(), LONG).await, connect(&server.url(), LONG).await);
    let reader = one.lock("k").shared().await.unwrap();
    let writer = tokio::spawn(two.lock("k").acquire());
    eventually("it waits, and the reader knows", || {
        server.try_command::<u64>(&["LLEN", QUEUE]) == Ok(1) && one.stats().renewals > 0
    })
    .await;
    let waiting = one.lock("k").shared().fairness(Fairness::Strict);
    let waiting = tokio::spawn(waiting.acquire());
    let renewals = one.stats().renewals;
    eventually("it asks", || one.stats().renewals > renewals + 1).await;
    assert!(!waiting.is_finished());
    writer.abort();
    within("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
    reader.release().await.unwrap();
}

/// With `CLIENT TRACKING` the server tells of writes to a key that was read. Of the lock of several
/// each renewal is one: n readers would be told n times in a third of a lease, and ask.
#[tokio::test]
async fn renewals_of_one_reader_are_not_told_to_the_others() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let (mut first, mut second) = (claim(&one, READER), claim(&two, READER));
    let mut other = claim_on(&two, "other", WRITER, LONG);
    first.takes().await;
    second.takes().await;
    other.takes().await;
    for _ in 0..3 {
        second.renews().await;
        first.renews().await;
        // Over the connection that would have told.
        other.renews().await;
        assert!(!is_told(&mut second).await);
    }
    // One that has the key alone is told, as ever.
    server.command::<()>(&["SET", "lock:{other}", "theirs"]);
    within("a push", other.claim.changed()).await;
    other.is_lost().await;
    server.command::<()>(&["DEL", "lock:{other}"]);
    first.releases().await;
    second.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_lock_that_lingers_is_given_back_when_it_is_tried_elsewhere() {
    let server = RedisServer::start();
    let (locks, other) =
        (connect(&server.url(), ms(30_000)).await, connect(&server.url(), ms(30_000)).await);
    let tries = async || other.lock("k").try_acquire().await.unwrap().is_none();
    let lingering = || locks.lock("k").linger(ms(60_000));
    let is_free = || server.key("lock:{k}").is_none();

    lingering().await.unwrap().release().await.unwrap();
    assert!(!is_free() && tries().await);
    eventually("it is given back", is_free).await;

    // One that is held is told once, and asks the server once at most, as its key was written.
    let held = lingering().await.unwrap();
    let published = || server.command_stats().calls("publish");
    let (renewals, before) = (locks.stats().renewals, published());
    for _ in 0..50 {
        assert!(tries().await);
    }
    assert!(held.is_held());
    assert_eq!(published() - before, 1);
    // Beside the one for tokens, as it lingers.
    assert!(locks.stats().renewals <= renewals + 2, "{:?}", locks.stats());
    held.release().await.unwrap();
    eventually("it does not linger", is_free).await;
}

/// V2: whoever hands the key on skips one that no push reaches, but not if its own connection is
/// back only now: what ended that may have ended others, and not all are back at once.
#[tokio::test]
async fn one_that_is_back_first_lets_in_those_who_are_not_back_yet() {
    let server = RedisServer::start();
    let [to_first, to_holder] = [(); 2].map(|()| Proxy::start(server.addr()));
    let behind = async |proxy: &Proxy| Redis::connect(&proxy.url(), None).await.unwrap();
    let (one, two, three) =
        (behind(&to_holder).await, behind(&to_first).await, store(&server).await);
    // The first round tells what happens to a holder whose connection lives.
    for (is_back, mode) in [(false, WRITER), (false, READER), (true, WRITER), (true, READER)] {
        loop {
            let mut holder = claim(&one, WRITER);
            holder.takes().await;
            let begun = Instant::now();
            let (mut first, mut second) = (claim(&two, mode), claim(&three, WRITER));
            first.waits().await;
            second.waits().await;
            to_first.refuse();
            if is_back {
                to_holder.reset();
            }
            eventually("it is cut off", || server.channels().len() == 2).await;
            holder.releases().await;
            to_first.resume();
            // Without a word for 1.5 s it counts as gone, whoever hands the key on.
            let is_alive = begun.elapsed() < ms(1_000);
            let (mut next, mut last) = if is_back && is_alive {
                (first, second)
            } else if is_alive {
                second.is_handed(&three).await;
                (second, first)
            } else {
                answered!(first.attempt());
                answered!(second.attempt());
                answered!(first.claim.withdraw());
                answered!(second.claim.withdraw());
                continue;
            };
            next.takes().await;
            last.waits().await;
            next.releases().await;
            last.takes().await;
            last.releases().await;
            break;
        }
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}
