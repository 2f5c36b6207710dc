//! What a server can be made to say.

use lock_core::backend::FaultKind;
use lock_core::error::ConnectError;
use lock_core::{AcquireError, LockClient, LockOptions};
use tests::etcd::{EtcdOptions, EtcdServer};
use tests::said::everything;
use tests::wait::{eventually, within};

use crate::support::*;

/// F25, V2: what a waiter waits for is older than what the server remembers.
#[tokio::test]
async fn a_compaction_while_one_waits_costs_no_grant() {
    let server = EtcdServer::start();
    let (one, two) = (client_at(&server, "p").await, client_at(&server, "p").await);
    let guard = one.lock("k").await.expect("a free key");
    let next = tokio::spawn(two.lock("k").acquire());
    eventually("it waits", || server.keys("p/k").len() == 2).await;
    server.put("other", "1");
    server.compact();
    guard.release().await.expect("a release");
    let next = within("the next", next).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// F30, V1, V2: a hold goes on while the database is full, is given back, and the next is granted
/// once there is room.
#[tokio::test]
async fn a_full_database_costs_no_hold() {
    let server = EtcdServer::start();
    let ours = client_at(&server, "p").await;
    let guard = ours.lock("k").await.expect("a free key");
    server.is_full(true);
    let once = LockOptions::new().with_wait(ms(300)).with_lease(ms(30_000));
    let error = ours.lock("other").options(once).await.expect_err("nothing can be written");
    assert!(everything(&error).contains("database of etcd is full"), "{error:?}");
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    eventually("it is free", || server.keys("p/k").is_empty()).await;
    server.is_full(false);
    let again = within("a free key", ours.lock("k").acquire()).await.expect("a grant");
    again.release().await.expect("a release");
}

/// F31: a wrong password is told at once and nowhere, a right one serves, also with a token that the
/// server has forgotten.
#[tokio::test]
async fn a_login_is_refused_or_renewed() {
    let mut server = EtcdServer::start();
    server.enable_auth();
    let url = |login: &str| format!("etcd://{login}{}/p?session=5s", server.addr());
    for (login, says) in
        [("root:hunter2@", "refuses the user or the password"), ("", "authentication enabled")]
    {
        let error = LockClient::connect(&url(login)).await.expect_err("it is refused");
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert_eq!(fault.kind(), FaultKind::Refused);
        let all = everything(&error);
        assert!(all.contains(says) && !all.contains("hunter2"), "{all}");
    }
    let ours = LockClient::connect(&url("root:secret@")).await.expect("it is let in");
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
    // It forgets its tokens with a restart.
    server.restart();
    let again = within("a new token", ours.lock("k").acquire()).await.expect("a grant");
    again.release().await.expect("a release");
}

/// F32: over TLS with a certificate of its own; never in the clear, nor to a stranger.
#[tokio::test]
async fn tls_serves_locks_and_refuses_a_server_that_nobody_vouches_for() {
    let server = EtcdServer::with(EtcdOptions::new().tls());
    let file = |name: &str| server.file(name).display().to_string();
    let who = format!("&cert={}&key={}", file("server.pem"), file("server.key"));
    let url = format!("etcd+tls://{}/p?ca={}", server.addr(), file("ca.pem"));
    let ours = LockClient::connect(&(url.clone() + &who)).await.expect("both are vouched for");
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
    let stranger = EtcdServer::unstarted_with_certificates();
    let foreign = format!("etcd+tls://{}/p?ca={}", server.addr(), stranger.ca().display());
    for refused in [url, foreign + &who, format!("etcd://{}/p", server.addr())] {
        LockClient::connect(&refused).await.expect_err("no TLS, or not with these");
    }
    drop(stranger);
}

/// F34: something foreign in the line is a claim on the key alone, and is left as it is.
#[tokio::test]
async fn a_foreign_key_in_the_line_is_a_holder() {
    let path = path();
    let ours = client(&path).await;
    SERVER.put(&format!("{path}/k/theirs"), "a value");
    let once = LockOptions::new().with_wait(ms(300)).with_lease(ms(30_000));
    let error = ours.lock("k").options(once).await.expect_err("it is held");
    assert!(matches!(error, AcquireError::Timeout(_)), "{error:?}");
    let seen = ours.inspect("k").await.expect("an inspection");
    assert_eq!(seen.holder().map(|holder| &*holder.claim), Some("theirs"));
    assert_eq!(SERVER.keys(&format!("{path}/k/"))[0].value, "a value");
    assert!(ours.force_release("k").await.expect("an answer"));
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
}

/// V5: somebody writes the session's own key, as a request of ours does that arrives late. Tries and
/// permits go on, too, which stand in no line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_key_that_was_written_costs_no_try_and_no_permit() {
    let path = path();
    let ours = client(&path).await;
    ours.lock("k").await.expect("a grant").release().await.expect("a release");
    let sessions = SERVER.keys(&format!("{path}/{{lock-sessions}}/"));
    let [session] = &sessions[..] else { panic!("{} sessions", sessions.len()) };
    for n in 0..2 {
        SERVER.put(&session.key, "theirs");
        let guard = match n {
            0 => ours.lock("k").try_acquire().await,
            _ => ours.lock("k").permits(3).try_acquire().await,
        };
        guard.expect("an answer").expect("a free key").release().await.expect("a release");
    }
}
