//! Terms over sessions that end, and links that come and go.

use lock_core::error::LossReason;
use tests::wait::{eventually, within};

use crate::support::*;

/// The nodes of those who stand for election.
fn candidates(server: &Zoo) -> Vec<String> {
    let mut nodes = server.children("/jobs");
    nodes.retain(|name| name.contains("-latch-"));
    nodes
}

/// Curator#1211: the client of a leader hears nothing until its session is over at the server. It is
/// told by its clock, and does not lead by its old node once it hears again.
#[tokio::test]
async fn a_leader_whose_session_ended_unheard_does_not_lead_by_its_old_node() {
    let server = Zoo::start().await;
    let (proxy, old) = behind_proxy(&server, SHORT).await;
    let new = connect(&server.at(LONG)).await;
    let term = old.election("jobs").run_for("old").await.unwrap();
    let again = tokio::spawn(new.election("jobs").run_for("new"));
    eventually("two candidates", || candidates(&server).len() == 2).await;
    let first = candidates(&server);
    proxy.black_hole();
    let lost = within("the word", term.lost()).await;
    let told = std::time::Instant::now();
    assert_eq!(lost.reason(), LossReason::Expired);
    let next = within("the next", again).await.unwrap().unwrap();
    assert!(told.elapsed() > ms(0) && !term.is_leader());
    proxy.reset();
    proxy.resume();
    let third = tokio::spawn(old.election("jobs").run_for("old again"));
    eventually("two candidates", || candidates(&server).len() == 2).await;
    let node = candidates(&server).into_iter().find(|node| !first.contains(node));
    assert!(node.is_some(), "a node of its own");
    assert!(!third.is_finished() && !term.is_leader() && next.is_leader());
    let leader = old.election("jobs").leader().await.unwrap().unwrap();
    assert_eq!((&*leader.value, leader.token), ("new", Some(next.token())));
    next.resign().await.unwrap();
    let third = within("its turn", third).await.unwrap().unwrap();
    drop((term, third));
    nothing_left(&server, [old, new]).await;
}

/// Curator#1137: links that break twice in a row, within the session. The term goes on with its
/// node, and nobody else leads meanwhile.
#[tokio::test]
async fn a_term_goes_on_over_links_that_break_one_after_the_other() {
    let server = Zoo::start().await;
    let (proxy, one) = behind_proxy(&server, LONG).await;
    let two = connect(&server.at(LONG)).await;
    let term = one.election("jobs").run_for("one").await.unwrap();
    let next = tokio::spawn(two.election("jobs").run_for("two"));
    eventually("two candidates", || candidates(&server).len() == 2).await;
    let before = candidates(&server);
    for _ in 0..4 {
        proxy.reset();
        let renewed = one.stats().renewals;
        eventually("a renewal", || one.stats().renewals > renewed).await;
    }
    assert!(term.is_leader() && !next.is_finished());
    assert_eq!(candidates(&server), before);
    term.resign().await.unwrap();
    drop(within("its turn", next).await.unwrap().unwrap());
    nothing_left(&server, [one, two]).await;
}

/// A follower has one watch on the leader, and learns of the next from it. An operator's wish that
/// the leader resign does not change what it published.
#[tokio::test]
async fn a_leader_that_is_asked_to_resign_is_shown_as_it_was() {
    let server = Zoo::start().await;
    let (one, two) = (connect(&server.at(LONG)).await, connect(&server.at(LONG)).await);
    let term = one.election("jobs").run_for("__one__ ü").await.unwrap();
    assert!(two.request_revoke("jobs").await.unwrap());
    within("the wish", term.revoke_requested()).await;
    let leader = two.election("jobs").leader().await.unwrap().unwrap();
    assert_eq!(&*leader.value, "__one__ ü");
    term.resign().await.unwrap();
    nothing_left(&server, [one, two]).await;
}
