//! A holder that is stopped while its session lives.

use tests::checker::Checker;

use crate::support::*;

/// F01 (V2, V3, V6): a holder that is stopped past its lease has lost it by its own clock, even if
/// the session lives; it takes its node away when it goes on, long before the session ends.
#[tokio::test]
async fn a_holder_that_is_stopped_past_its_lease_has_lost_it_though_its_session_lives() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let successor = history.actor("successor", &locks);
    let mut holder = history.worker("holder", &server.at(LONG), LEASE);
    let old = holder.ask("acquire k 9000 2500").await.token();
    let (session, _) = server.holder("k").unwrap();
    holder.freeze();
    assert!(successor.acquire("k", ms(3_000)).await.0.unwrap_err().is_timeout());
    holder.send("is_held");
    holder.thaw();
    assert_eq!(holder.reply().await.held, Some(false));
    assert_eq!(holder.ask("lost").await.message.as_deref(), Some("Expired"));
    let (guard, took) = successor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    assert!(took < LONG / 3, "{took:?}");
    assert!(guard.token().get() > old && successor.write(&guard).await);
    assert!(server.sessions().iter().any(|one| one.id == session), "the session lives");
    successor.release(guard).await.unwrap();
    holder.send("exit");
    holder.ended().await;
    history.check(Checker::new());
    drop(successor);
    server.expire_session(session);
    nothing_left(&server, [locks]).await;
}
