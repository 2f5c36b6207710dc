//! The server fixture does what it says.

#![allow(clippy::disallowed_methods)]

use std::net::TcpStream;
use std::path::Path;

use tests::redis::{RedisOptions, RedisServer};

#[test]
fn a_server_answers_and_is_gone_when_dropped() {
    let server = RedisServer::start();
    let (addr, pid) = (server.addr(), server.pid());
    assert_eq!(server.command::<String>(&["PING"]), "PONG");
    drop(server);
    assert!(TcpStream::connect(addr).is_err(), "the port still answers");
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the process is still there");
}

#[test]
fn a_server_is_gone_after_a_panic_even_if_it_was_frozen() {
    let pid = std::sync::Mutex::new(0);
    let outcome = std::panic::catch_unwind(|| {
        let server = RedisServer::start();
        *pid.lock().unwrap() = server.pid();
        server.freeze();
        std::panic::resume_unwind(Box::new("a failing test"));
    });
    assert!(outcome.is_err());
    let pid = pid.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
#[should_panic(expected = "install the Debian package `redis-server`")]
fn a_missing_server_is_a_failure_that_names_the_package() {
    let _ = RedisServer::with(RedisOptions::new().binary("/nowhere/redis-server"));
}

#[test]
fn servers_started_together_take_different_ports() {
    let threads: Vec<_> = (0..6).map(|_| std::thread::spawn(RedisServer::start)).collect();
    let servers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 6);
}

#[test]
fn a_restart_keeps_the_port_and_forgets_the_keys_unless_they_were_persisted() {
    for (options, left) in [(RedisOptions::new(), 0), (RedisOptions::new().aof(), 1)] {
        let mut server = RedisServer::with(options);
        let (port, pid) = (server.port(), server.pid());
        server.command::<()>(&["SET", "k", "v"]);
        server.restart();
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
        assert_eq!(server.keys().len(), left);
    }
}

#[test]
fn a_frozen_server_answers_nothing_and_a_thawed_one_does() {
    let server = RedisServer::start();
    server.freeze();
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    while !stat().contains(") T ") {
        std::thread::yield_now();
    }
    server.thaw();
    assert_eq!(server.command::<String>(&["PING"]), "PONG");
}

#[test]
fn a_password_is_required_and_part_of_the_url() {
    let server = RedisServer::with(RedisOptions::new().requirepass("open-sesame"));
    let ping = |url: &str| -> redis::RedisResult<String> {
        redis::cmd("PING").query(&mut redis::Client::open(url)?.get_connection()?)
    };
    assert_eq!(ping(&server.url()).unwrap(), "PONG");
    let without = format!("redis://{}", server.addr());
    assert!(ping(&without).unwrap_err().to_string().contains("NOAUTH"));
}

#[test]
fn an_acl_limits_its_user_and_not_the_fixture() {
    let server = RedisServer::with(RedisOptions::new().acl(["user app on >pw ~lock:* +get"]));
    let mut app =
        redis::Client::open(server.url_as("app", "pw")).unwrap().get_connection().unwrap();
    let refused: redis::RedisResult<()> = redis::cmd("SET").arg("lock:k").arg(1).query(&mut app);
    assert_eq!(refused.unwrap_err().code(), Some("NOPERM"));
    server.command::<()>(&["SET", "other", "1"]);
    assert_eq!(server.keys().len(), 1);
}

#[test]
fn a_memory_limit_refuses_writes() {
    let server = RedisServer::with(RedisOptions::new().maxmemory(1, "noeviction"));
    let refused = server.try_command::<()>(&["SET", "k", "v"]).unwrap_err();
    assert!(refused.to_string().contains("OOM"), "{refused}");
}

#[test]
fn a_unix_socket_answers() {
    let server = RedisServer::with(RedisOptions::new().unix_socket());
    let url = format!("redis+unix://{}", server.unix_socket().unwrap().display());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    assert_eq!(redis::cmd("PING").query::<String>(&mut connection).unwrap(), "PONG");
}

#[test]
fn keys_commands_channels_and_clients_are_seen_from_outside() {
    let server = RedisServer::start();
    let mut client = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    server.reset_stats();
    redis::cmd("SET").arg("b").arg(1).exec(&mut client).unwrap();
    redis::cmd("SET").arg("a").arg(1).arg("PX").arg(60_000).exec(&mut client).unwrap();
    redis::cmd("GET").arg("a").arg("b").exec(&mut client).unwrap_err();
    let keys = server.keys();
    assert_eq!([&keys[0].name, &keys[1].name], ["a", "b"]);
    assert_eq!(keys[0].kind, "string");
    assert!(keys[0].ttl_ms.is_some_and(|ttl| ttl <= 60_000) && keys[1].ttl_ms.is_none());
    assert_eq!(server.key("c"), None);
    let stats = server.command_stats();
    assert_eq!((stats.calls("set"), stats.calls_of(&["set", "eval"])), (2, 2));
    assert_eq!(stats.0["get"].rejected_calls, 1);

    let mut pubsub = client.as_pubsub();
    pubsub.subscribe("news").unwrap();
    assert_eq!(server.channels(), ["news"]);
    assert_eq!((server.subscribers("news"), server.subscribers("old")), (1, 0));
    let clients = server.clients();
    assert_eq!(clients.len(), 1, "{clients:?}");
    assert_eq!(clients[0].subscriptions(), 1);
    assert!(clients[0].id() > 0 && clients[0].name().is_empty());
}

#[test]
fn a_clock_moves_for_its_server_alone_and_stays_moved_over_a_restart() {
    let mut server = RedisServer::with(RedisOptions::new().movable_clock());
    let other = RedisServer::start();
    server.command::<()>(&["SET", "k", "v", "PX", "60000"]);
    server.move_clock(-3_600_000);
    assert!(server.key("k").unwrap().ttl_ms.unwrap() > 3_600_000);
    server.move_clock(1_800_000);
    server.restart();
    let behind_us = other.time_us() - server.time_us();
    assert!((1_795_000_000..1_801_000_000).contains(&behind_us), "{behind_us} us behind");
    server.command::<()>(&["SET", "k", "v", "PX", "60000"]);
    server.move_clock(60_001);
    assert_eq!(server.key("k"), None);
}
