//! `zookeeper+quorum://`, and who is excluded by whom.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::stalls::Stopwatch;
use tests::wait::{answered, eventually};
use zookeeper_client::CreateMode;

use crate::support::*;

const FOREIGN: &str = "/locks/k/_c_0-theirs-lock-";

/// Curator has one server to go by: at that one both stand in one line, and nowhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_excludes_a_quorum_at_a_majority_of_the_servers_only() {
    let servers = Servers::keeping_directories().await;
    let locks = connected(&url("", &servers.all, LONG)).await;
    settled(&locks).await;
    let theirs: Vec<_> = servers.all[..2]
        .iter()
        .map(|server| {
            for directory in ["/locks", "/locks/k"] {
                if server.node(directory).is_none() {
                    server.create(directory, "", CreateMode::Container);
                }
            }
            server.create(FOREIGN, "10.0.0.1", CreateMode::EphemeralSequential)
        })
        .collect();
    assert!(answered(&locks, "k").await.is_none(), "they have two of three");
    assert!(servers.all[0].delete(&theirs[0]));
    let guard = locks.lock("k").await.unwrap();
    let holder = locks.inspect("k").await.unwrap().holders.pop().expect("a majority");
    assert_eq!(holder.token, Some(guard.token()), "told as the guard has it");
    guard.release().await.unwrap();
    assert!(servers.all[1].node(&theirs[1]).is_some(), "they had the third all the time");
}

/// In any order the servers are one quorum, and under another name another: nothing is served, and
/// not again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_whose_quorums_differ_are_told_so() {
    let mut servers = Servers::start().await;
    let first = connected(&url("", &servers.all, LONG)).await;
    settled(&first).await;
    servers.all.reverse();
    let second = connected(&url("", &servers.all, LONG)).await;
    let guard = second.lock("k").await.unwrap();
    assert!(answered(&first, "k").await.is_none());
    guard.release().await.unwrap();
    let other = url("", &servers.all, LONG) + "&name=other";
    let ConnectError::Store(fault) = connect(&other).await.unwrap_err() else { panic!("served") };
    assert!(!fault.is_transient() && fault.to_string().contains("`other`"), "{fault}");
    settled(&first).await;
}

/// F41: who is away when a client connects is found when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_connects_while_a_majority_answers() {
    let mut servers = Servers::start().await;
    let url = url("", &servers.all, LONG);
    // A new quorum is founded by all.
    settled(&connected(&url).await).await;
    servers.all[0].kill();
    let begun = Stopwatch::start();
    let locks = connect(&url).await.unwrap();
    assert!(begun.own() < ms(3_000), "{:?}", begun.elapsed());
    locks.lock("k").await.unwrap().release().await.unwrap();
    servers.all[1].kill();
    let begun = Stopwatch::start();
    let error = connect(&url).await.unwrap_err();
    assert!(begun.own() < ms(8_000), "{:?}", begun.elapsed());
    assert!(matches!(error, ConnectError::Store(_)), "{error:?}");
    assert!(!error.to_string().contains("zookeeper+quorum"), "{error}");
    servers.all[0].restart();
    locks.lock("k").await.unwrap().release().await.unwrap();
}

/// F31: the password is nowhere, and what one user has made another may not touch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_are_told_apart_at_each_server() {
    let servers = Servers::start().await;
    let locks = connected(&url("u:right@", &servers.all, LONG)).await;
    let guard = locks.lock("k").await.unwrap();
    let error = connect(&url("u:wrong@", &servers.all, LONG)).await.unwrap_err();
    let ConnectError::Store(fault) = &error else { panic!("{error}") };
    assert!(!fault.is_transient(), "{fault}");
    let said = format!("{error} {error:?} {locks:?}");
    assert!(!said.contains("wrong") && !said.contains(":right"), "{said}");
    guard.release().await.unwrap();
    drop(locks);
    eventually("only what stays is left", || servers.left().is_empty()).await;
}

#[tokio::test]
async fn a_url_that_names_no_quorum_is_refused_before_anything_is_sent() {
    for (hosts, part) in [
        ("secret:secret@h1,h2", "at least 3"),
        ("secret:secret@h1,h2,h1", "twice"),
        ("secret:secret@h1,,h2", "host"),
        ("secret:secret@h1,h2,h3?fsync=no", "fsync"),
        ("secret:secret@h1,h2,h3?lease_max=1ms", "lease_max"),
    ] {
        let error = LockClient::connect(&format!("zookeeper+quorum://{hosts}")).await.unwrap_err();
        assert!(matches!(error, ConnectError::Url { .. }), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
}
