//! Leases that end, by the clock of the server.

use lock_core::Key;
use lock_core::backend::Backend;

use crate::support::*;

#[tokio::test]
async fn a_dead_reader_ends_beside_living_ones_that_keep_the_key() {
    let server = server();
    let (one, two) = (store(&server).await, store(&server).await);
    let (mut dead, mut living) = (claim_for(&one, READER, ms(9_000)), claim(&two, READER));
    dead.takes().await;
    living.takes().await;
    let mut writer = claim(&two, WRITER);
    assert_eq!(writer.waits().await.0, 2);
    server.move_clock(9_001);
    let seen = two.inspect(&Key::new("k").unwrap()).await.unwrap();
    assert!(seen.holders.len() == 1 && seen.holders[0].claim == living.id, "{seen:?}");
    dead.is_lost().await;
    assert!(!sets_if_absent(&server));
    assert_eq!(writer.waits().await.0, 1, "the dead one is not counted");
    assert_eq!(server.command::<u64>(&["ZCARD", HELD]), 1);
    living.renews().await;
    living.releases().await;
    writer.is_handed(&two).await;
    writer.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn all_readers_end_at_once_as_a_writer_comes_and_only_it_holds_the_key() {
    let server = server();
    let (one, two) = (store(&server).await, store(&server).await);
    for has_lock in [false, true] {
        let mut readers = [(); 2].map(|()| claim_for(&one, READER, ms(9_000)));
        for reader in &mut readers {
            reader.takes().await;
        }
        if has_lock {
            // As where the last of those who lived longer has left while its keys were in two
            // places: the lock outlives who holds it.
            server.command::<()>(&["PEXPIRE", LOCK, "60000"]);
            server.command::<()>(&["PEXPIRE", HELD, "60000"]);
        }
        server.move_clock(9_001);
        let mut writer = claim(&two, WRITER);
        writer.takes().await;
        for reader in &mut readers {
            reader.is_lost().await;
            reader.leaves().await;
        }
        writer.renews().await;
        writer.releases().await;
        assert_eq!(keys(&server), Vec::<String>::new());
    }
}

/// A waiter asks again when the first of the leases may be over.
#[tokio::test]
async fn who_waits_is_told_when_the_first_lease_ends() {
    let server = server();
    let (one, two) = (store(&server).await, store(&server).await);
    let (mut dead, mut living) = (claim_for(&one, of(2), ms(300)), claim(&one, of(2)));
    living.takes().await;
    dead.takes().await;
    let mut next = claim(&two, of(2));
    assert!(next.waits().await.1 <= ms(301));
    server.move_clock(300);
    assert_eq!(next.takes().await.slot, 1, "that of the dead");
    living.releases().await;
    next.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// A writer in line that is dead stops those behind it no longer than it counts as alive.
#[tokio::test]
async fn a_dead_writer_in_line_lets_readers_pass_after_its_time() {
    let server = server();
    let (one, two) = (store(&server).await, store(&server).await);
    let (mut reader, mut dead) = (claim(&one, READER), claim(&one, WRITER));
    reader.takes().await;
    dead.waits().await;
    let mut late = claim(&two, READER);
    late.waits().await;
    server.move_clock(1_501);
    late.takes().await;
    assert_eq!(keys(&server), [LOCK, HELD]);
    reader.releases().await;
    late.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// A server without memory refuses a script to begin with a write that may need some.
#[tokio::test]
async fn a_full_server_renews_finds_and_releases_what_several_hold() {
    let server = server();
    let (one, two) = (store(&server).await, store(&server).await);
    for mode in [READER, of(2)] {
        let (mut first, mut second) = (claim(&one, mode), claim(&two, mode));
        first.takes().await;
        second.takes().await;
        for (name, value) in [("maxmemory-policy", "noeviction"), ("maxmemory", "1")] {
            server.command::<()>(&["CONFIG", "SET", name, value]);
        }
        assert!(server.try_command::<()>(&["SET", "probe", "v"]).is_err());
        // Beyond the leases that they began with.
        for _ in 0..2 {
            server.move_clock(40_000);
            first.renews().await;
            second.renews().await;
        }
        // As one does whose push was lost.
        first.takes().await;
        first.releases().await;
        second.releases().await;
        server.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(keys(&server), Vec::<String>::new());
    }
}
