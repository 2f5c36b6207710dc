//! The fault proxy does to a link what the test says, and nothing else.

#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, cmd};
use tests::proxy::{Action, Direction, Flow, Match, Proxy};
use tests::redis::RedisServer;
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};

async fn connect(proxy: &Proxy) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(proxy.url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Sends `SET key 1` from a task of its own.
fn set(connection: &MultiplexedConnection, key: &str) -> tokio::task::JoinHandle<RedisResult<()>> {
    let (mut connection, key) = (connection.clone(), key.to_owned());
    tokio::spawn(async move { cmd("SET").arg(key).arg(1).exec_async(&mut connection).await })
}

#[tokio::test]
async fn a_healthy_proxy_passes_everything_and_counts_it() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let before = proxy.counters();
    assert_eq!((before.connections, before.open), (1, 1));
    for n in 0..10 {
        set(&connection, &format!("k{n}")).await.unwrap().unwrap();
    }
    let after = proxy.counters();
    assert_eq!((after.requests - before.requests, after.replies - before.replies), (10, 10));
    assert_eq!(after.bytes_to_client - before.bytes_to_client, 10 * "+OK\r\n".len() as u64);
    assert_eq!(server.keys().len(), 10);
}

#[tokio::test]
async fn a_value_larger_than_any_buffer_passes_whole() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let mut connection = connect(&proxy).await;
    let value = vec![b'\n'; 3_000_000];
    cmd("SET").arg("k").arg(&value).exec_async(&mut connection).await.unwrap();
    let back: Vec<u8> = cmd("GET").arg("k").query_async(&mut connection).await.unwrap();
    assert!(back == value);
}

#[tokio::test]
async fn a_swallowed_reply_leaves_its_command_applied_and_its_connection_cut() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let trap = proxy.trap(Match::verb("set").containing("second"), Action::SwallowReply);
    set(&connection, "first").await.unwrap().unwrap();
    assert!(!trap.has_sprung());
    let lost = set(&connection, "second").await.unwrap();
    assert!(lost.unwrap_err().is_connection_dropped());
    trap.sprung().await;
    assert!(server.key("second").is_some(), "the server never saw the command");
    assert_eq!(proxy.counters().sprung, 1);
    eventually("the connection is gone", || proxy.counters().open == 0).await;
    set(&connect(&proxy).await, "second").await.unwrap().expect("a trap springs once");
}

#[tokio::test]
async fn a_dropped_request_never_reaches_the_server() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let _trap = proxy.trap(Match::verb("SET"), Action::DropRequest);
    assert!(set(&connection, "k").await.unwrap().unwrap_err().is_connection_dropped());
    assert_eq!(server.keys(), []);
}

#[tokio::test]
async fn a_held_request_waits_before_the_server_until_it_is_released() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let trap = proxy.trap(Match::verb("SET").after(1), Action::HoldRequest);
    set(&connection, "first").await.unwrap().unwrap();
    let held = set(&connection, "second");
    trap.sprung().await;
    assert!(server.key("second").is_none() && !held.is_finished());
    trap.release();
    within("the released request", held).await.unwrap().unwrap();
    assert!(server.key("second").is_some());
}

#[tokio::test]
async fn a_held_reply_waits_behind_the_server_until_its_trap_is_dropped() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let trap = proxy.trap(Match::any(), Action::HoldReply);
    let held = set(&connection, "k");
    trap.sprung().await;
    assert!(server.key("k").is_some() && !held.is_finished());
    drop(trap);
    within("the reply", held).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dropped_trap_is_disarmed() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    drop(proxy.trap(Match::any(), Action::DropRequest));
    set(&connection, "k").await.unwrap().unwrap();
    assert_eq!(proxy.counters().sprung, 0);
}

#[tokio::test]
async fn a_black_hole_keeps_what_is_sent_into_it_until_the_link_resumes() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let before = proxy.counters();
    proxy.set(Direction::ToServer, Flow::BlackHole);
    let held = set(&connection, "up");
    proxy.wait_for_requests(before.requests + 1).await;
    assert!(server.key("up").is_none());
    proxy.set(Direction::ToClient, Flow::BlackHole);
    proxy.set(Direction::ToServer, Flow::Pass);
    proxy.wait_until("the reply", |counters| counters.replies > before.replies).await;
    assert!(server.key("up").is_some() && !held.is_finished());
    proxy.resume();
    within("the reply", held).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_black_hole_hides_even_the_death_of_the_server() {
    let mut server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let before = proxy.counters().requests;
    proxy.black_hole();
    let held = set(&connection, "k");
    proxy.wait_for_requests(before + 1).await;
    server.kill();
    assert!(!held.is_finished() && proxy.counters().open == 1);
    proxy.resume();
    within("the end", held).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_delay_is_added_to_each_request_once_even_if_they_are_pipelined() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let connection = connect(&proxy).await;
    let delay = Duration::from_millis(150);
    proxy.set(Direction::ToServer, Flow::Delay(delay));
    let start = Stopwatch::start();
    let together: Vec<_> = (0..8).map(|n| set(&connection, &format!("k{n}"))).collect();
    for one in together {
        one.await.unwrap().unwrap();
    }
    let (took, own) = (start.elapsed(), start.own());
    assert!(took >= delay, "{took:?}");
    assert!(own < delay * 4, "eight delays in a row: {took:?}");
}

#[tokio::test]
async fn cut_and_reset_end_what_is_open_and_let_new_connections_in() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    for end in [Proxy::cut, Proxy::reset] {
        let connection = connect(&proxy).await;
        end(&proxy);
        eventually("the connection is gone", || proxy.counters().open == 0).await;
        assert!(set(&connection, "k").await.unwrap().is_err());
        set(&connect(&proxy).await, "k").await.unwrap().unwrap();
        proxy.cut();
        eventually("the connection is gone", || proxy.counters().open == 0).await;
    }
}

#[tokio::test]
async fn a_cut_is_seen_as_an_end_and_a_reset_as_a_reset() {
    use tokio::io::AsyncReadExt;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let mut stream = tokio::net::TcpStream::connect(proxy.addr()).await.unwrap();
    proxy.wait_until("the connection", |counters| counters.connections == 1).await;
    proxy.cut();
    assert_eq!(within("the end", stream.read(&mut [0])).await.unwrap(), 0);
    let mut stream = tokio::net::TcpStream::connect(proxy.addr()).await.unwrap();
    proxy.wait_until("the connection", |counters| counters.connections == 2).await;
    proxy.reset();
    let error = within("the reset", stream.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_refusing_proxy_lets_nobody_in_until_it_resumes() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    proxy.refuse();
    let client = Client::open(proxy.url()).unwrap();
    assert!(client.get_multiplexed_async_connection().await.is_err());
    proxy.resume();
    assert!(client.get_multiplexed_async_connection().await.is_ok());
}

#[tokio::test]
async fn lost_pushes_take_neither_replies_nor_confirmations_with_them() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    for resp in ["resp2", "resp3"] {
        let url = format!("{}/?protocol={resp}", proxy.url());
        let mut pubsub = Client::open(url).unwrap().get_async_pubsub().await.unwrap();
        pubsub.subscribe("news").await.unwrap();
        let dropped = proxy.counters().pushes_dropped;
        proxy.drop_pushes(true);
        assert_eq!(server.command::<u64>(&["PUBLISH", "news", "lost"]), 1);
        proxy.wait_until("the push", |counters| counters.pushes_dropped > dropped).await;
        pubsub.subscribe("more").await.unwrap();
        proxy.drop_pushes(false);
        server.command::<u64>(&["PUBLISH", "news", "kept"]);
        let message = within("the message", pubsub.on_message().next()).await.unwrap();
        assert_eq!(message.get_payload::<String>().unwrap(), "kept", "{resp}");
    }
}

#[tokio::test]
async fn a_subscription_does_not_shift_the_replies_that_traps_count() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let (sender, _receiver) = tokio::sync::mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender).set_response_timeout(None);
    let client = Client::open(format!("{}/?protocol=resp3", proxy.url())).unwrap();
    let mut connection =
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    connection.subscribe("news").await.unwrap();
    let trap = proxy.trap(Match::verb("SET"), Action::HoldReply);
    let held = set(&connection, "k");
    trap.sprung().await;
    assert!(server.key("k").is_some() && !held.is_finished());
    trap.release();
    within("the reply", held).await.unwrap().unwrap();
}
