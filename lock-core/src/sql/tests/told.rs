//! A claim that hears of its grant by a row that was told.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, NOW, Server};
use super::together::{A, B, C, LEASE, grant, held_by, id, key, process, withdraw};
use crate::backend::{Attempt, Change, Claim, Terms, Withdrawal};
use crate::ground::clock;
use crate::proto::lease::drift;
use crate::sql::changes::Sight;
use crate::sql::claim::LeaseClaim;
use crate::sql::row::CLAIM_LEASE;
use crate::sql::store::Store;

/// Has everybody in this process told the row as it is.
fn tell(store: &Store<Fake>, server: &Server) {
    store.changes.tell(&key(), Sight { row: server.row(), now: NOW, asked: clock::now() });
}

/// A claim that waited for A, and was granted the key when that left.
async fn granted() -> (Arc<Server>, Arc<Store<Fake>>, LeaseClaim<Fake>) {
    let server = held_by(&[A]);
    let (one, two) = (process(&server), process(&server));
    let mut waits = LeaseClaim::new(two.clone(), &key(), id(B), Terms::exclusive(LEASE), None);
    assert!(matches!(waits.attempt().await, Ok(Attempt::Blocked { .. })));
    withdraw(one, A).await.unwrap();
    (server, two, waits)
}

/// As long as most of its lease is left; what has run of that is taken off.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_told_of_its_grant_does_not_ask_for_it() {
    for (late, reads) in [(Duration::ZERO, 0), (CLAIM_LEASE / 4, 0), (CLAIM_LEASE * 3 / 4, 1)] {
        let (server, store, mut waits) = granted().await;
        tell(&store, &server);
        assert_eq!(waits.changed().await, Change::Here);
        tokio::time::advance(late).await;
        let before = server.reads();
        let grant = grant(waits.attempt().await);
        assert_eq!(server.reads() - before, reads, "{late:?}");
        if reads == 0 {
            assert_eq!(grant.valid_for, CLAIM_LEASE - late - drift(late));
        }
        assert!(grant.handed_on);
    }
}

/// By the store's own look at the row.
#[tokio::test]
async fn a_row_that_is_read_for_those_who_listen_is_a_grant() {
    let (server, store, mut waits) = granted().await;
    store.changes.unread_all();
    assert_eq!(waits.changed().await, Change::Here);
    let before = server.reads();
    let grant = grant(waits.attempt().await);
    assert_eq!(server.reads(), before);
    assert!(grant.valid_for > CLAIM_LEASE / 2 && grant.valid_for <= CLAIM_LEASE);
}

/// It is of the claim's last wait, and nobody knows of a later row.
#[tokio::test(start_paused = true)]
async fn a_grant_that_was_told_is_nothing_once_it_is_over() {
    let (server, store, mut waits) = granted().await;
    tell(&store, &server);
    assert_eq!(waits.changed().await, Change::Here);
    assert_eq!(waits.withdraw().await.unwrap(), Withdrawal::Released);
    let before = server.reads();
    grant(waits.attempt().await);
    assert!(server.reads() > before, "it was asked for anew");

    let (server, store, mut waits) = granted().await;
    tell(&store, &server);
    assert_eq!(waits.changed().await, Change::Here);
    let taker = process(&server);
    assert!(taker.force_release(key(), clock::now() + LEASE).await.unwrap());
    let mut third = LeaseClaim::new(taker, &key(), id(C), Terms::exclusive(LEASE), None);
    grant(third.attempt().await);
    tell(&store, &server);
    assert!(matches!(waits.attempt().await, Ok(Attempt::Blocked { .. })), "it was taken away");
}
