//! Faults of the store behind a [`LockClient`], over links that fail.

use std::time::Duration;

use lock_core::{LockClient, LockOptions};
use tests::blocked::{Application, alone};
use tests::proxy::{Action, Direction, Flow, Match, Proxy};
use tests::wait::{eventually, within};

use crate::server::Server;
use crate::speech::Speech;
use crate::store::Lines;

const LEASE: Duration = Duration::from_secs(2);

async fn client(addr: std::net::SocketAddr) -> LockClient {
    let options = LockOptions::new().with_lease(LEASE);
    let builder = LockClient::builder_with(Lines::at_home(addr)).defaults(options);
    builder.connect().await.expect("it asks nothing")
}

async fn nothing_left(server: &Server) {
    eventually("nothing is left", || server.keys().is_empty()).await;
}

/// The conductor renews over a connection that no runtime of the application serves.
#[test]
fn a_hold_is_kept_while_the_application_is_blocked() {
    let server = Server::start();
    let addr = server.addr();
    let (guard, application) = Application::blocked_after(async move || {
        let locks = client(addr).await;
        (locks.lock("k").await.expect("a free key"), locks)
    });
    alone().block_on(async {
        let rival = client(addr).await;
        let error = rival.lock("k").wait(LEASE * 2).await.expect_err("it is held");
        assert!(error.is_timeout(), "{error}");
        let (guard, locks) = guard;
        assert!(guard.is_held());
        guard.release().await.expect("a release");
        let next = within("the rival's turn", rival.lock("k").acquire()).await;
        next.expect("it is free").release().await.expect("a release");
        drop(locks);
        nothing_left(&server).await;
    });
    application.let_go();
}

/// The store has granted, and nobody was told: the same claim asks again, and has it.
#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_found_again() {
    let server = Server::start();
    let proxy = Proxy::between(server.addr(), &Speech);
    let locks = client(proxy.addr()).await;
    let trap = proxy.trap(Match::verb("attempt"), Action::SwallowReply);
    let wait = Duration::from_secs(20);
    let guard = locks.lock("k").wait(wait).await.expect("it is free");
    assert!(trap.has_sprung());
    guard.release().await.expect("a release");
    nothing_left(&server).await;
}

/// The next try goes over another connection, long before the lease ends.
#[tokio::test]
async fn a_hold_outlives_a_renewal_whose_answer_was_lost() {
    let server = Server::start();
    let proxy = Proxy::between(server.addr(), &Speech);
    let locks = client(proxy.addr()).await;
    let guard = locks.lock("k").await.expect("it is free");
    let trap = proxy.trap(Match::verb("renew"), Action::SwallowReply);
    trap.sprung().await;
    let next = proxy.trap(Match::verb("renew"), Action::HoldReply);
    next.sprung().await;
    next.release();
    let rival = client(server.addr()).await;
    let error = rival.lock("k").wait(LEASE * 2).await.expect_err("it is held");
    assert!(error.is_timeout(), "{error}");
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    nothing_left(&server).await;
}

/// By its own clock, and so before the store grants the key to the next.
#[tokio::test]
async fn a_holder_that_is_cut_off_knows_it_when_the_next_is_granted() {
    let server = Server::start();
    let proxy = Proxy::between(server.addr(), &Speech);
    let locks = client(proxy.addr()).await;
    let guard = locks.lock("k").await.expect("it is free");
    let token = guard.token();
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.set(direction, Flow::BlackHole);
    }
    let rival = client(server.addr()).await;
    let next = within("the next grant", rival.lock("k").acquire()).await.expect("a grant");
    assert!(!guard.is_held());
    assert!(next.token() > token);
    within("the word of it", guard.lost()).await;
    next.release().await.expect("a release");
    proxy.resume();
    nothing_left(&server).await;
}
