//! A claim that hears of its grant by a row that was told.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, NOW, Server};
use super::together::{A, B, C, LEASE, attempt, grant, held_by, id, key, process, withdraw};
use crate::backend::io::Home;
use crate::backend::{Attempt, Change, Claim, Terms, Withdrawal};
use crate::ground::clock;
use crate::sql::changes::Sight;
use crate::sql::claim::LeaseClaim;
use crate::sql::row::CLAIM_LEASE;
use crate::sql::store::Store;

/// Has everybody in this process told the row as it is.
fn tell(store: &Store<Fake>, server: &Server) {
    store.changes.tell(&key(), Sight { row: server.row(), now: NOW, asked: clock::now() });
}

/// A claim that waited for A, and was granted the key when that left; then `next` waits for it.
async fn granted(
    fake: fn(&Arc<Server>) -> Fake,
    next: Option<u128>,
) -> (Arc<Server>, Arc<Store<Fake>>, LeaseClaim<Fake>) {
    let server = held_by(&[A]);
    let (one, two) = (process(&server), Store::start(fake(&server), Home::shared().unwrap()));
    let mut waits = LeaseClaim::new(two.clone(), &key(), id(B), Terms::exclusive(LEASE), None);
    assert!(matches!(waits.attempt().await, Ok(Attempt::Blocked { .. })));
    if let Some(next) = next {
        assert!(matches!(attempt(one.clone(), next).await, Ok(Attempt::Blocked { .. })));
    }
    withdraw(one, A).await.unwrap();
    (server, two, waits)
}

/// As long as most of its lease is left.
#[tokio::test]
async fn a_claim_that_is_told_of_its_grant_does_not_ask_for_it() {
    for (late, reads) in [(Duration::ZERO, 0), (CLAIM_LEASE * 3 / 4, 1)] {
        let (server, _store, mut waits) = granted(Fake::looking, Some(C)).await;
        assert_eq!(waits.changed().await, Change::Here);
        tokio::time::sleep(late).await;
        let before = server.reads();
        let grant = grant(waits.attempt().await);
        assert_eq!(server.reads() - before, reads, "{late:?}");
        assert!(grant.handed_on && grant.wanted && grant.valid_for <= CLAIM_LEASE);
    }
}

/// It waits for nothing any more: a word that names another tells of its loss.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_claim_that_was_told_of_its_grant_listens_to_each_word_from_then_on() {
    let (_server, store, mut waits) = granted(Fake::looking, Some(C)).await;
    assert_eq!(waits.changed().await, Change::Here);
    grant(waits.attempt().await);
    assert!(store.changes.concerns(&key(), Some(id(C))));
}

/// Others may be back in the line by then, and it is to know that it is wanted.
#[tokio::test]
async fn a_claim_asks_for_a_grant_that_was_told_at_once_or_that_nobody_else_wanted() {
    for next in [Some(C), None] {
        let fake = if next.is_some() { Fake::of } else { Fake::looking };
        let (server, store, mut waits) = granted(fake, next).await;
        tell(&store, &server);
        assert_eq!(waits.changed().await, Change::Here);
        let before = server.reads();
        grant(waits.attempt().await);
        assert_eq!(server.reads() - before, 1, "{next:?}");
    }
}

/// It is of the claim's last wait, and nobody knows of a later row.
#[tokio::test]
async fn a_grant_that_was_told_is_nothing_once_it_is_over() {
    let (_server, _store, mut waits) = granted(Fake::looking, Some(C)).await;
    assert_eq!(waits.changed().await, Change::Here);
    assert_eq!(waits.withdraw().await.unwrap(), Withdrawal::Released);
    assert!(matches!(waits.attempt().await, Ok(Attempt::Blocked { .. })), "it is C's");

    let (server, store, mut waits) = granted(Fake::looking, Some(C)).await;
    assert_eq!(waits.changed().await, Change::Here);
    let taker = process(&server);
    assert!(taker.force_release(key(), clock::now() + LEASE).await.unwrap());
    tell(&store, &server);
    assert!(matches!(waits.attempt().await, Ok(Attempt::Blocked { .. })), "it was taken away");
}
