//! The proxy before a ZooKeeper and a raw client.

use std::time::Duration;

use tests::proxy::{Action, Direction, Flow, Match, Proxy};
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};
use tests::zookeeper::ZooKeeperServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use zookeeper_client::{Client, Error, EventType, SessionState};

use crate::{EPHEMERAL, LASTING, connect};

/// A server, a proxy before it, and a session through the proxy.
async fn behind_proxy() -> (ZooKeeperServer, Proxy, Client) {
    let server = ZooKeeperServer::start();
    let proxy = Proxy::zookeeper(server.addr());
    let client = connect(&proxy.addr().to_string()).await;
    (server, proxy, client)
}

/// Creates a node from a task of its own.
fn create(client: &Client, path: &'static str) -> JoinHandle<Result<(), Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.create(path, b"", &LASTING).await.map(drop) })
}

async fn state(client: &Client, wanted: SessionState) {
    let what = format!("the client is {wanted}");
    eventually(&what, || client.state() == wanted).await;
}

#[tokio::test]
async fn a_healthy_proxy_passes_everything_and_counts_all_but_pings() {
    let (server, proxy, client) = behind_proxy().await;
    assert_eq!(proxy.url(), format!("zookeeper://{}", proxy.addr()));
    let before = proxy.counters();
    assert_eq!((before.connections, before.open), (1, 1));
    for path in ["/a", "/b", "/c"] {
        create(&client, path).await.unwrap().unwrap();
    }
    let (_, _, watcher) = client.get_and_watch_data("/a").await.unwrap();
    server.set_data("/a", "changed");
    let event = within("the notification", watcher.changed()).await;
    assert_eq!(event.event_type, EventType::NodeDataChanged);
    proxy.wait_until("a ping", |counters| counters.pings > before.pings).await;
    let after = proxy.counters();
    assert_eq!((after.requests - before.requests, after.replies - before.replies), (4, 4));
    assert_eq!((after.pushes, after.pushes_dropped), (1, 0));
}

#[tokio::test]
async fn a_large_node_passes_whole() {
    let (server, _proxy, client) = behind_proxy().await;
    let data = vec![7; 900_000];
    client.create("/large", &data, &LASTING).await.unwrap();
    assert!(client.get_data("/large").await.unwrap().0 == data);
    assert_eq!(server.node("/large").unwrap().data.len(), data.len());
}

#[tokio::test]
async fn a_swallowed_reply_leaves_its_node_created_and_its_connection_cut() {
    let (server, proxy, client) = behind_proxy().await;
    let trap = proxy.trap(Match::verb("create").containing("/second"), Action::SwallowReply);
    create(&client, "/first").await.unwrap().unwrap();
    assert!(!trap.has_sprung());
    assert!(create(&client, "/second").await.unwrap().is_err());
    assert!(trap.has_sprung() && server.node("/second").is_some());
    state(&client, SessionState::SyncConnected).await;
    create(&client, "/third").await.unwrap().unwrap();
    assert_eq!((proxy.counters().sprung, server.sessions().len()), (1, 1));
}

#[tokio::test]
async fn a_dropped_request_never_reaches_the_server_and_its_connection_is_cut() {
    let (server, proxy, client) = behind_proxy().await;
    let trap = proxy.trap(Match::verb("CREATE"), Action::DropRequest);
    assert!(create(&client, "/lost").await.unwrap().is_err());
    trap.sprung().await;
    assert!(server.tree("/").is_empty());
}

#[tokio::test]
async fn a_held_request_waits_for_its_release() {
    let (server, proxy, client) = behind_proxy().await;
    let trap = proxy.trap(Match::verb("create").containing("/k").after(1), Action::HoldRequest);
    create(&client, "/k1").await.unwrap().unwrap();
    let held = create(&client, "/k2");
    trap.sprung().await;
    assert!(server.node("/k2").is_none() && !held.is_finished());
    trap.release();
    within("the reply", held).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_held_reply_is_that_of_its_request_though_pings_and_watches_come_between() {
    let (server, proxy, client) = behind_proxy().await;
    create(&client, "/watched").await.unwrap().unwrap();
    let (_, _, watcher) = client.get_and_watch_data("/watched").await.unwrap();
    let pings = proxy.counters().pings;
    proxy.wait_until("a ping", |counters| counters.pings > pings).await;
    let trap = proxy.trap(Match::verb("create"), Action::HoldReply);
    let slow = proxy.trap(Match::verb("getData"), Action::HoldRequest);
    server.set_data("/watched", "news");
    within("the notification", watcher.changed()).await;
    let held = create(&client, "/k");
    trap.sprung().await;
    assert!(server.node("/k").is_some() && !held.is_finished() && !slow.has_sprung());
    drop(trap);
    within("the reply", held).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_black_hole_keeps_what_is_sent_into_it_until_the_link_resumes() {
    let (server, proxy, client) = behind_proxy().await;
    let before = proxy.counters();
    proxy.set(Direction::ToServer, Flow::BlackHole);
    let held = create(&client, "/up");
    proxy.wait_for_requests(before.requests + 1).await;
    assert!(server.node("/up").is_none());
    proxy.set(Direction::ToClient, Flow::BlackHole);
    proxy.set(Direction::ToServer, Flow::Pass);
    proxy.wait_until("the reply", |counters| counters.replies > before.replies).await;
    assert!(server.node("/up").is_some() && !held.is_finished());
    proxy.resume();
    within("the reply", held).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_black_hole_past_the_session_s_end_costs_the_session_its_nodes() {
    let server = ZooKeeperServer::with(tests::zookeeper::ZooKeeperOptions::new().tick_ms(500));
    let proxy = Proxy::zookeeper(server.addr());
    let connector = Client::connector().with_session_timeout(Duration::from_secs(2));
    let client = connector.connect(&proxy.addr().to_string()).await.unwrap();
    client.create("/fleeting", b"", &EPHEMERAL).await.unwrap();
    proxy.black_hole();
    eventually("the session's end", || server.sessions().is_empty()).await;
    assert!(server.tree("/").is_empty());
    proxy.resume();
    state(&client, SessionState::Expired).await;
}

#[tokio::test]
async fn a_delay_is_added_to_each_request_once_even_if_they_are_pipelined() {
    let (_server, proxy, client) = behind_proxy().await;
    let delay = Duration::from_secs(1);
    proxy.set(Direction::ToServer, Flow::Delay(delay));
    let start = Stopwatch::start();
    let together = ["/a", "/b", "/c", "/d", "/e", "/f"].map(|path| create(&client, path));
    for one in together {
        one.await.unwrap().unwrap();
    }
    let (took, own) = (start.elapsed(), start.own());
    assert!(took >= delay, "{took:?}");
    assert!(own < delay * 4, "six delays in a row: {took:?}");
}

#[tokio::test]
async fn a_session_survives_a_cut_and_a_reset() {
    let (server, proxy, client) = behind_proxy().await;
    for (n, end) in [Proxy::cut, Proxy::reset].into_iter().enumerate() {
        let connections = proxy.counters().connections;
        end(&proxy);
        proxy.wait_until("the way back", |counters| counters.connections > connections).await;
        state(&client, SessionState::SyncConnected).await;
        create(&client, ["/a", "/b"][n]).await.unwrap().unwrap();
    }
    assert_eq!(server.sessions()[0].id, client.session_id().0);
}

#[tokio::test]
async fn a_refusing_proxy_lets_nobody_in_until_it_resumes() {
    let (_server, proxy, client) = behind_proxy().await;
    proxy.refuse();
    state(&client, SessionState::Disconnected).await;
    let hosts = proxy.addr().to_string();
    let another = Client::connector().with_fail_eagerly().connect(&hosts);
    assert_eq!(within("the refusal", another).await.unwrap_err(), Error::NoHosts);
    proxy.resume();
    state(&client, SessionState::SyncConnected).await;
}

#[tokio::test]
async fn lost_pushes_are_the_notifications_of_watches_and_nothing_else() {
    let (server, proxy, client) = behind_proxy().await;
    create(&client, "/watched").await.unwrap().unwrap();
    let (_, _, watcher) = client.get_and_watch_data("/watched").await.unwrap();
    proxy.drop_pushes(true);
    server.set_data("/watched", "lost");
    proxy.wait_until("the notification", |counters| counters.pushes_dropped == 1).await;
    assert_eq!(server.watches(), 0);
    assert_eq!(client.get_data("/watched").await.unwrap().0, b"lost");
    proxy.drop_pushes(false);
    let mut changed = Box::pin(watcher.changed());
    let heard = std::future::poll_fn(|cx| std::task::Poll::Ready(changed.as_mut().poll(cx))).await;
    assert!(heard.is_pending());
    let (_, _, again) = client.get_and_watch_data("/watched").await.unwrap();
    server.set_data("/watched", "kept");
    assert_eq!(within("the event", again.changed()).await.event_type, EventType::NodeDataChanged);
}

#[tokio::test]
async fn a_trap_for_a_ping_catches_one_and_one_for_anything_does_not() {
    let (_server, proxy, client) = behind_proxy().await;
    let any = proxy.trap(Match::any(), Action::HoldRequest);
    let ping = proxy.trap(Match::verb("PING"), Action::HoldReply);
    ping.sprung().await;
    assert!(!any.has_sprung());
    drop((any, ping));
    state(&client, SessionState::SyncConnected).await;
}

#[tokio::test]
async fn a_reply_is_known_by_its_number_and_not_by_its_place() {
    let frame = |number: i32, operation: i32| {
        [8_i32.to_be_bytes(), number.to_be_bytes(), operation.to_be_bytes()].concat()
    };
    let (create, ping, notification) = (frame(5, 1), frame(-2, 11), frame(-1, 0));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = Proxy::zookeeper(listener.local_addr().unwrap());
    let trap = proxy.trap(Match::verb("create"), Action::HoldReply);
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    client.write_all(&[create.clone(), ping.clone()].concat()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut asked = [0; 24];
    within("the requests", server.read_exact(&mut asked)).await.unwrap();
    server.write_all(&[notification.clone(), ping.clone(), create].concat()).await.unwrap();
    let mut heard = [0; 24];
    within("what the trap lets by", client.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard.to_vec(), [notification, ping].concat());
    trap.sprung().await;
}
