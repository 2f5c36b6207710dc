//! Leases that end by the clock of the server, or would, as it only reads; and what comes too late.

use lock_core::Key;
use lock_core::backend::{Backend, Claim, ClaimId, Terms};
use lock_core::redis::Redis;
use tests::proxy::{Action, Match, Proxy};
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::support::*;

/// The connections over which holds are renewed, by number: the server tells them of what was read.
fn tracking(server: &RedisServer) -> Vec<String> {
    let clients = server.command::<String>(&["CLIENT", "LIST"]);
    let field = |client: &str, name: &str| {
        let value = client.split(' ').find_map(|field| field.strip_prefix(name));
        value.unwrap_or_default().to_owned()
    };
    let tracks = |client: &&str| field(client, "flags=").contains('t');
    clients.lines().filter(tracks).map(|client| field(client, "id=")).collect()
}

/// A name may lead to a new primary by now.
#[tokio::test]
async fn a_renewal_leaves_the_connection_to_a_server_that_only_reads() {
    let server = server();
    for mode in [WRITER, READER, of(2)] {
        let store = store(&server).await;
        let mut holder = claim(&store, mode);
        holder.takes().await;
        holder.renews().await;
        // That of the store before this one may still be there.
        eventually("there is one", || tracking(&server).len() == 1).await;
        let before = tracking(&server);
        server.command::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        assert!(holder.claim.renew().await.is_err(), "{mode:?}");
        eventually("the connection is left", || tracking(&server) != before).await;
        server.command::<()>(&["REPLICAOF", "NO", "ONE"]);
        holder.renews().await;
        holder.releases().await;
    }
}

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

/// It would take the key from whoever came later.
#[tokio::test]
async fn what_is_forced_and_was_long_on_its_way_takes_the_key_from_nobody() {
    let server = server();
    let proxy = Proxy::start(server.addr());
    let (near, far) = (store(&server).await, Redis::connect(&proxy.url(), None).await.unwrap());
    let key = Key::new("k").unwrap();
    let forced = || {
        let id = ClaimId::from_bits(fastrand::u128(..));
        let claim = far.forced(&key, id, Terms::exclusive(LONG));
        Asker { claim, id: id.to_string() }
    };
    for acquires in [true, false] {
        // The scripts are known then.
        forced().takes().await;
        assert!(answered!(far.force_release(&key)));
        let mut holder = claim(&near, WRITER);
        holder.takes().await;
        let trap = proxy.trap(Match::verb("EVALSHA").containing(LOCK), Action::OrphanRequest);
        let failed = match acquires {
            true => forced().attempt().await.is_err(),
            false => far.force_release(&key).await.is_err(),
        };
        assert!(failed && trap.has_sprung());
        holder.releases().await;
        let mut later = claim(&near, WRITER);
        later.takes().await;
        server.move_clock(2_001);
        trap.release();
        trap.arrived().await;
        later.renews().await;
        later.releases().await;
    }
    assert_eq!(keys(&server), Vec::<String>::new());
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
