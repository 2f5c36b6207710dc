//! Actions of an operator on lock nodes by hand.

use lock_core::error::LossReason;
use tests::checker::Checker;
use tests::stalls::Stopwatch;

use crate::support::*;

/// F29 (V2, V3, V6): a holder whose node is deleted is told by its watch, long before the next
/// renewal; the node that it makes next is its own again.
#[tokio::test]
async fn a_holder_whose_node_is_deleted_by_hand_is_told_at_once() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let actor = history.actor("a", &locks);
    let (guard, _) = actor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    tests::wait::eventually("it watches", || server.watches() >= 1).await;
    let start = Stopwatch::start();
    assert!(server.delete(&format!("/k/{}", server.line("k")[0])));
    let lost = actor.lost(&guard).await;
    assert!(start.own() < SLACK, "{:?}", start.elapsed());
    assert_eq!((lost.reason(), guard.is_held()), (LossReason::Taken, false));
    assert!(actor.release(guard).await.unwrap_err().is_not_held());
    let (guard, _) = actor.acquire("k", ms(9_000)).await;
    actor.release(guard.unwrap()).await.unwrap();
    history.check(Checker::new().exclusive());
    drop(actor);
    nothing_left(&server, [locks]).await;
}

/// F29 (V4, V5, V6): a waiter whose node is deleted stands in line again at its next look.
#[tokio::test]
async fn a_waiter_whose_node_is_deleted_by_hand_is_in_line_again() {
    let server = Zoo::start().await;
    let holder = connect(&server.at(LONG)).await;
    let locks = connect(&server.at(SHORT)).await;
    let held = holder.lock("k").await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.watching("k", 2).await;
    let old = server.line("k")[1].clone();
    assert!(server.delete(&format!("/k/{old}")));
    server.watching("k", 2).await;
    assert_ne!(server.line("k")[1], old);
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [holder, locks]).await;
}

/// F29 (V6): the nodes of all are deleted with their directory; everyone is told or comes back.
#[tokio::test]
async fn a_directory_that_is_deleted_with_its_line_is_made_again() {
    let server = Zoo::start().await;
    let holder = connect(&server.at(LONG)).await;
    let locks = connect(&server.at(SHORT)).await;
    let held = holder.lock("k").await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.watching("k", 2).await;
    // One by one, the waiter would have the key for a moment.
    server.delete_with_children("/k");
    tests::wait::within("the loss", held.lost()).await;
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(server.line("k").len(), 1);
    assert!(held.release().await.unwrap_err().is_not_held());
    guard.release().await.unwrap();
    nothing_left(&server, [holder, locks]).await;
}
