//! Permits: their numbers, and how many there are.

use lock_core::backend::{Backend, FaultKind};
use lock_core::{Key, Mode};
use tests::redis::RedisServer;

use crate::support::*;

async fn other_limit(asker: &mut Asker) -> u32 {
    match asker.attempt().await {
        Err(fault) => match fault.kind() {
            FaultKind::OtherLimit(of) => of,
            _ => panic!("{fault:?}"),
        },
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn each_has_the_lowest_number_that_is_free() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let mut held = Vec::new();
    for slot in 0..40 {
        let mut permit = claim(&store, of(40));
        assert_eq!(permit.takes().await.slot, slot);
        held.push(permit);
    }
    let mut next = claim(&store, of(40));
    next.waits().await;
    next.leaves().await;
    for freed in [&[0][..], &[39], &[3, 17, 4], &[38, 39, 1]] {
        for slot in freed {
            held[*slot].releases().await;
        }
        let mut freed = freed.to_vec();
        freed.sort_unstable();
        for slot in freed {
            held[slot] = claim(&store, of(40));
            assert_eq!(held[slot].takes().await.slot, u32::try_from(slot).unwrap());
            // Asked again, as the answer was lost.
            assert_eq!(held[slot].takes().await.slot, u32::try_from(slot).unwrap());
        }
    }
    for permit in &mut held {
        permit.renews().await;
        permit.releases().await;
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_permit_that_is_pushed_says_its_number_and_goes_on_to() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut held = [(); 3].map(|()| claim(&one, of(3)));
    for permit in &mut held {
        permit.takes().await;
    }
    let mut next = claim(&two, of(3));
    next.waits().await;
    held[1].releases().await;
    assert_eq!(next.is_handed(&two).await.slot, 1);
    assert_eq!(next.renews().await.slot, 1);
    assert_eq!(server.command::<Vec<String>>(&["ZRANGE", SLOTS, "1", "1"]).len(), 1);
    held.swap(1, 2);
    for permit in held[..2].iter_mut().chain([&mut next]) {
        permit.releases().await;
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// F29: a server may evict the numbers and keep who holds the key.
#[tokio::test]
async fn a_number_that_was_evicted_is_given_to_nobody_while_its_holder_has_it() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut held = [(); 3].map(|()| claim(&one, of(5)));
    for permit in &mut held {
        permit.takes().await;
    }
    let mut next = claim(&two, of(5));
    server.command::<u64>(&["DEL", SLOTS]);
    next.waits().await;
    held[0].renews().await;
    held[1].renews().await;
    // The third is missing still.
    next.waits().await;
    // Asked again, as the answer was lost: nobody knows its number, so it has none, and is behind
    // the one that waits.
    assert_eq!(held[2].takes().await.slot, 3);
    assert_eq!(next.is_handed(&two).await.slot, 2);
    for (slot, permit) in (0..).zip(held.iter_mut()).take(2) {
        assert_eq!(permit.takes().await.slot, slot);
    }
    for permit in held.iter_mut().chain([&mut next]) {
        permit.releases().await;
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn another_limit_is_refused_while_permits_are_held_or_waited_for_and_leaves_nothing() {
    let server = server();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut other = claim(&two, of(9));
    let mut holder = claim(&one, of(2));
    holder.takes().await;
    assert_eq!(other_limit(&mut other).await, 2);
    assert_eq!(keys(&server), [LOCK, HELD, SLOTS]);
    assert_eq!(server.command::<u64>(&["ZCARD", HELD]), 1);
    holder.releases().await;
    // Nobody holds a permit, and one waits for one: behind readers, behind a writer, and behind more
    // writers than are looked at together.
    for (holds, writers) in [(READER, 0), (WRITER, 0), (READER, 230)] {
        let mut holder = claim(&one, holds);
        holder.takes().await;
        let mut line = Vec::new();
        for _ in 0..writers {
            let mut writer = claim(&one, WRITER);
            writer.waits().await;
            line.push(writer);
        }
        let mut waiter = claim(&one, of(2));
        waiter.waits().await;
        assert_eq!(other_limit(&mut other).await, 2);
        let length = || server.command::<usize>(&["LLEN", QUEUE]);
        assert_eq!((length(), server.command::<usize>(&["HLEN", DUE])), (writers + 1, writers + 1));
        // One who says the same may wait; one who is dead is nobody's limit.
        let mut same = claim(&two, of(2));
        same.waits().await;
        same.leaves().await;
        server.move_clock(1_501);
        other.waits().await;
        other.leaves().await;
        for asker in line.iter_mut().chain([&mut waiter]) {
            asker.leaves().await;
        }
        holder.releases().await;
        assert_eq!(keys(&server), Vec::<String>::new());
    }
    other.takes().await;
    other.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Where more dead ones stand before it than one call skips.
#[tokio::test]
async fn one_that_stands_behind_many_dead_is_let_in_once() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let (mut holder, mut permit) = (claim(&store, WRITER), claim(&store, of(3)));
    holder.takes().await;
    permit.waits().await;
    for dead in 0..1_100 {
        server.command::<u64>(&["LPUSH", QUEUE, &dead.to_string()]);
    }
    server.command::<()>(&["DEL", LOCK]);
    assert_eq!(permit.takes().await.slot, 0);
    assert!(!permit.renews().await.wanted);
    assert_eq!(keys(&server), [LOCK, HELD, SLOTS]);
    assert_eq!(server.command::<Vec<String>>(&["ZRANGE", SLOTS, "0", "-1", "WITHSCORES"])[1], "0");
    let mut others = [(); 2].map(|()| claim(&store, of(3)));
    for (other, slot) in others.iter_mut().zip([1, 2]) {
        assert_eq!(other.takes().await.slot, slot);
    }
    for permit in others.iter_mut().chain([&mut permit]) {
        permit.releases().await;
    }
    holder.leaves().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Those before it died, more than one call skips, and one of them lives.
#[tokio::test]
async fn one_that_stands_behind_many_dead_passes_nobody_who_lives() {
    for mode in [WRITER, READER, of(1)] {
        for dead in [1_100, 6_000] {
            let server = RedisServer::start();
            let (one, two) = (store(&server).await, store(&server).await);
            let (mut holder, mut living) = (claim(&one, WRITER), claim(&two, WRITER));
            let mut asker = claim(&one, mode);
            holder.takes().await;
            living.waits().await;
            asker.waits().await;
            let dead: Vec<_> = (0..dead).map(|dead: u32| dead.to_string()).collect();
            let line = ["LPUSH", QUEUE].into_iter().chain(dead.iter().map(String::as_str));
            server.command::<u64>(&line.collect::<Vec<_>>());
            living.waits().await;
            server.command::<()>(&["DEL", LOCK]);
            while server.command::<usize>(&["LLEN", QUEUE]) > 1 {
                let (_, recheck) = asker.waits().await;
                let left = server.command::<usize>(&["LLEN", QUEUE]);
                assert!(left == 1 || recheck <= ms(1), "{left} are left, and it is to wait");
            }
            living.is_handed(&two).await;
            asker.leaves().await;
            living.releases().await;
            holder.leaves().await;
            assert_eq!(keys(&server), Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn all_who_hold_a_key_and_wait_for_it_are_listed_with_their_mode() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut held = [(); 2].map(|()| claim(&one, of(2)));
    for permit in &mut held {
        permit.takes().await;
    }
    let modes = [WRITER, of(2), READER, WRITER];
    let mut line = modes.map(|mode| claim(&two, mode));
    for waiter in &mut line {
        waiter.waits().await;
    }
    let seen = two.inspect(&Key::new("k").unwrap()).await.unwrap();
    assert_eq!(seen.holders.len(), 2, "{seen:?}");
    for seen in &seen.holders {
        assert!(held.iter().any(|permit| permit.id == seen.claim), "{seen:?}");
        assert_eq!(seen.mode, of(2));
        assert!(seen.lease_left.is_some_and(|left| left > LONG / 2 && left <= LONG), "{seen:?}");
    }
    let waiters = seen.waiters.iter().map(|waiter| (waiter.claim.clone(), waiter.mode));
    let expected = line.iter().zip(modes).map(|(waiter, mode)| (waiter.id.clone(), mode));
    assert_eq!(waiters.collect::<Vec<_>>(), expected.collect::<Vec<(String, Mode)>>());
    // Taken away from both, and given to the head of the line.
    assert!(one.force_release(&Key::new("k").unwrap()).await.unwrap());
    for permit in &mut held {
        within("a push", lock_core::backend::Claim::changed(&mut permit.claim)).await;
        permit.is_lost().await;
    }
    line[0].is_handed(&two).await;
    for waiter in line.iter_mut().skip(1) {
        waiter.leaves().await;
    }
    line[0].releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}
