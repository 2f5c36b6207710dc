//! A server of a test's own.

use std::net::TcpStream;
use std::path::Path;

use tests::wait::{eventually, within};
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};
use zookeeper_client::{Acls, CreateMode, Error, SessionState};

use crate::{EPHEMERAL, connect};

#[test]
fn a_server_serves_and_is_gone_when_dropped() {
    let server = ZooKeeperServer::start();
    let (addr, pid) = (server.addr(), server.pid());
    assert_eq!(server.word("ruok"), "imok");
    assert_eq!(server.mntr()["zk_server_state"], "standalone");
    assert_eq!(server.url(), format!("zookeeper://{}", server.connect_string()));
    drop(server);
    assert!(TcpStream::connect(addr).is_err(), "the port still answers");
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the process is still there");
}

#[test]
#[should_panic(expected = "install the Debian package `zookeeper`")]
fn a_missing_server_is_a_failure_that_names_the_package() {
    let _ = ZooKeeperServer::with(ZooKeeperOptions::new().jars("/nowhere"));
}

#[test]
#[should_panic(expected = "install the Debian package `zookeeper`")]
fn a_missing_java_is_a_failure_that_names_the_package() {
    let _ = ZooKeeperServer::with(ZooKeeperOptions::new().java("/nowhere/java"));
}

#[test]
#[should_panic(expected = "Invalid config")]
fn a_server_that_does_not_start_shows_the_end_of_its_log() {
    let _ = ZooKeeperServer::with(ZooKeeperOptions::new().set("tickTime", "soon"));
}

#[tokio::test]
async fn nodes_are_seen_and_changed_from_outside_whatever_their_rights() {
    let server = ZooKeeperServer::start();
    let client = connect(&server.connect_string()).await;
    client.auth("digest", b"app:secret").await.unwrap();
    let private = CreateMode::Persistent.with_acls(Acls::creator_all());
    let (stat, _) = client.create("/mine", b"private", &private).await.unwrap();
    client.create("/fleeting", b"", &EPHEMERAL).await.unwrap();
    server.create("/dir", "", CreateMode::Container);
    let first = server.create("/dir/n-", "one", CreateMode::PersistentSequential);

    let tree = server.tree("/");
    let paths: Vec<_> = tree.iter().map(|node| node.path.as_str()).collect();
    assert_eq!(paths, ["/dir", "/dir/n-0000000000", "/fleeting", "/mine"]);
    assert_eq!(tree[1].path, first);
    assert!(tree[0].is_container && tree[0].ephemeral_owner.is_none() && !tree[1].is_container);
    assert_eq!(tree[2].ephemeral_owner, Some(client.session_id().0));
    assert_eq!((tree[3].data.as_slice(), tree[3].czxid), (&b"private"[..], stat.czxid));
    assert_eq!(server.children("/dir"), ["n-0000000000"]);
    assert_eq!(server.tree("/dir").len(), 2);

    server.set_data("/mine", "changed");
    assert_eq!(client.get_data("/mine").await.unwrap().0, b"changed");
    assert_eq!(server.node("/mine").unwrap().version, 1);
    assert!(server.delete("/mine") && !server.delete("/mine"));
    assert_eq!(client.get_data("/mine").await.unwrap_err(), Error::NoNode);
    assert_eq!((server.node("/mine"), server.children("/mine")), (None, vec![]));
}

#[test]
fn servers_started_together_take_different_ports() {
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(ZooKeeperServer::start)).collect();
    let servers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_ne!(servers[0].port(), servers[1].port());
}

#[test]
fn a_server_is_gone_after_a_panic_even_if_it_was_paused() {
    let pid = std::sync::Mutex::new(0);
    let outcome = std::panic::catch_unwind(|| {
        let server = ZooKeeperServer::start();
        *pid.lock().unwrap() = server.pid();
        server.pause();
        std::panic::resume_unwind(Box::new("a failing test"));
    });
    assert!(outcome.is_err());
    let pid = pid.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_paused_server_answers_nothing_and_one_that_goes_on_does() {
    let server = ZooKeeperServer::start();
    server.pause();
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    while !stat().contains(") T ") {
        std::thread::yield_now();
    }
    server.resume();
    assert_eq!(server.word("ruok"), "imok");
}

#[tokio::test]
async fn a_restart_keeps_the_port_the_nodes_and_the_sessions() {
    let mut server = ZooKeeperServer::start();
    let client = connect(&server.connect_string()).await;
    client.create("/fleeting", b"", &EPHEMERAL).await.unwrap();
    for end in [ZooKeeperServer::kill, ZooKeeperServer::stop] {
        let (port, pid, before) = (server.port(), server.pid(), server.tree("/"));
        end(&mut server);
        assert!(TcpStream::connect(server.addr()).is_err());
        server.restart();
        assert_eq!((server.port(), server.tree("/")), (port, before));
        assert_ne!(server.pid(), pid);
    }
    let back = || server.sessions().iter().any(|session| session.connected);
    eventually("the client's way back", back).await;
    assert_eq!(server.sessions()[0].id, client.session_id().0);
    client.check_stat("/fleeting").await.unwrap().unwrap();
}

#[tokio::test]
async fn sessions_watches_and_packets_are_those_of_the_test_and_not_of_the_fixture() {
    let server = ZooKeeperServer::start();
    assert_eq!((server.sessions(), server.packets_received()), (vec![], 0));
    let _ = server.tree("/");
    assert_eq!((server.sessions(), server.packets_received()), (vec![], 0));
    let client = connect(&server.connect_string()).await;
    client.create("/a", b"", &EPHEMERAL).await.unwrap();
    let (_, _, _watch) = client.get_and_watch_data("/a").await.unwrap();
    assert_eq!(server.watches(), 1);
    // A client pings on its own, but not while it has something to say.
    let before = server.packets_received();
    for _ in 0..10 {
        client.check_stat("/a").await.unwrap();
    }
    assert_eq!(server.packets_received() - before, 10);
    let sessions = server.sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!((sessions[0].id, sessions[0].connected), (client.session_id().0, true));
    assert_eq!(sessions[0].ephemerals, ["/a"]);
    drop((client, _watch));
    eventually("the session's end", || server.sessions().is_empty()).await;
}

#[tokio::test]
async fn empty_containers_are_removed_soon() {
    let server = ZooKeeperServer::start();
    server.create("/dir", "", CreateMode::Container);
    server.create("/dir/child", "", CreateMode::Persistent);
    server.delete("/dir/child");
    eventually("the container's end", || server.tree("/").is_empty()).await;
}

#[tokio::test]
async fn an_expired_session_loses_its_nodes_at_once_and_its_client_is_told() {
    let server = ZooKeeperServer::start();
    let client = connect(&server.connect_string()).await;
    let other = connect(&server.connect_string()).await;
    client.create("/mine", b"", &EPHEMERAL).await.unwrap();
    other.create("/other", b"", &EPHEMERAL).await.unwrap();
    let mut states = client.state_watcher();
    server.expire_session(client.session_id().0);
    assert_eq!(server.children("/"), ["other", "zookeeper"]);
    assert_eq!(server.sessions().len(), 1);
    let told = async { while states.changed().await != SessionState::Expired {} };
    within("the client is told", told).await;
    assert_eq!(client.check_stat("/mine").await.unwrap_err(), Error::SessionExpired);
    assert!(other.check_stat("/other").await.unwrap().is_some());
}

#[test]
fn the_options_reach_the_server_and_its_jvm() {
    let options = ZooKeeperOptions::new().tick_ms(200).optimizing().no_force_sync();
    let server = ZooKeeperServer::with(options.tick_ms(300));
    assert!(server.word("conf").contains("minSessionTimeout=600\n"));
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", server.pid())).unwrap();
    assert!(arguments.contains("-Dzookeeper.forceSync=no"), "{arguments}");
    assert!(!arguments.contains("TieredStopAtLevel"), "{arguments}");
}
