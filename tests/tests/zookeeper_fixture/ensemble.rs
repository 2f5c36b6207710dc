//! Servers that form a quorum.

use std::time::Duration;

use tests::proxy::Proxy;
use tests::wait::{eventually, within};
use tests::zookeeper::{ZooKeeperEnsemble, ZooKeeperOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zookeeper_client::{Client, CreateMode, Error, SessionState};

use crate::{EPHEMERAL, LASTING, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_follower_still_reads_what_it_knows_while_the_majority_writes_and_ends_its_sessions()
{
    let ensemble = ZooKeeperEnsemble::start(3);
    let (leader, followers) = (ensemble.leader(), ensemble.followers());
    assert_eq!(followers.len(), 2);
    let behind = followers[0];
    let connector = Client::connector().with_session_timeout(Duration::from_secs(4));
    let client = connector.connect(&ensemble.server(behind).connect_string()).await.unwrap();
    client.create("/k", b"old", &LASTING).await.unwrap();
    client.create("/mine", b"", &EPHEMERAL).await.unwrap();

    ensemble.cut_from_leader(behind);
    let rival = connect(&ensemble.server(followers[1]).connect_string()).await;
    within("a write of the majority", rival.set_data("/k", b"new", None)).await.unwrap();
    // The session's 4 s pass; for the majority it is over, and the client cannot know.
    eventually("the session's end", || ensemble.server(leader).node("/mine").is_none()).await;
    assert_eq!(client.get_data("/k").await.unwrap().0, b"old");
    assert!(client.check_stat("/mine").await.unwrap().is_some());
    assert_eq!(client.state(), SessionState::SyncConnected);

    ensemble.heal();
    let mut states = client.state_watcher();
    let told = async { while states.changed().await != SessionState::Expired {} };
    within("the client is told", told).await;
    assert_eq!(client.get_data("/k").await.unwrap_err(), Error::SessionExpired);
    eventually("the follower is told", || {
        ensemble.server(behind).node("/k").is_some_and(|node| node.data == b"new")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_cut_for_long_serves_nobody_until_the_link_heals() {
    let ensemble =
        ZooKeeperEnsemble::with(3, &ZooKeeperOptions::new().tick_ms(600).set("syncLimit", "7"));
    let behind = ensemble.followers()[0];
    ensemble.cut_from_leader(behind);
    eventually("the follower gives up", || ensemble.server(behind).mode().is_none()).await;
    ensemble.server(ensemble.leader()).create("/new", "", CreateMode::Persistent);
    ensemble.heal();
    let follows = || ensemble.server(behind).mode().is_some_and(|mode| mode == "follower");
    eventually("the follower is back", follows).await;
    assert_eq!(ensemble.server(behind).children("/"), ["new", "zookeeper"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_outlives_its_leader_and_a_restart_of_all() {
    let mut ensemble = ZooKeeperEnsemble::start(3);
    assert_eq!(ensemble.url(), format!("zookeeper://{}", ensemble.connect_string()));
    let first = ensemble.leader();
    let client = connect(&ensemble.connect_string()).await;
    client.create("/fleeting", b"", &EPHEMERAL).await.unwrap();
    let owner = Some(client.session_id().0);

    ensemble.kill(first);
    let second = ensemble.leader();
    assert_ne!(first, second);
    assert_eq!(ensemble.server(second).node("/fleeting").unwrap().ephemeral_owner, owner);
    ensemble.start_again(first);
    assert_eq!((ensemble.leader(), ensemble.followers().len()), (second, 2));

    ensemble.restart_all();
    let leader = ensemble.leader();
    assert_eq!(ensemble.server(leader).node("/fleeting").unwrap().ephemeral_owner, owner);
    let sessions = ensemble.server(leader).sessions();
    assert_eq!((sessions.len(), Some(sessions[0].id)), (1, owner));
    eventually("the client's way back", || client.state() == SessionState::SyncConnected).await;
    ensemble.server(leader).expire_session(client.session_id().0);
    assert!(ensemble.server(leader).tree("/").is_empty());
}

#[tokio::test]
async fn a_link_waits_for_a_server_that_does_not_listen_yet() {
    let unused = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let proxy = Proxy::opaque(unused);
    let mut early = TcpStream::connect(proxy.addr()).await.unwrap();
    early.write_all(b"hello").await.unwrap();
    proxy.wait_until("the connection", |counters| counters.open == 1).await;
    let late = TcpListener::bind(unused).await.unwrap();
    let (mut accepted, _) = within("the connection", late.accept()).await.unwrap();
    let mut heard = [0; 5];
    within("the bytes", accepted.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"hello");
}
