//! F32: TLS, with certificates that are made for the test.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use lock_core::error::ConnectError;
use lock_core::{LockClient, LockOptions};
use tests::certificates::certificates;
use tests::port::free_port;
use tests::stalls::Stopwatch;
use tests::wait::{answered, within};
use tests::zookeeper::{Session, ZooKeeperOptions};

use crate::support::*;

/// A certificate authority, and a server's key with its certificate in one file as ZooKeeper
/// takes them.
fn ca_and_both(folder: &Path) -> [PathBuf; 2] {
    let [ca, certificate, key] = certificates(folder);
    let both = [key, certificate].map(|file| std::fs::read(file).unwrap());
    let path = folder.join("both.pem");
    std::fs::write(&path, both.concat()).unwrap();
    [ca, path]
}

/// A server with a key and a certificate, and its port for TLS.
async fn server_with(both: &Path) -> (Zoo, u16) {
    let port = free_port();
    let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
    let options = ZooKeeperOptions::new()
        // No session outlives its client by more than 8 s.
        .tick_ms(400)
        .jar("netty-codec.jar")
        .property("zookeeper.serverCnxnFactory", factory)
        .set("secureClientPort", &port.to_string())
        .set("ssl.keyStore.location", both.to_str().unwrap())
        .set("ssl.keyStore.type", "PEM")
        .set("ssl.clientAuth", "none");
    (Zoo::with(options).await, port)
}

fn tls_url(port: u16, ca: &Path) -> String {
    format!("zookeeper+tls://127.0.0.1:{port}?session=6s&ca={}", ca.display())
}

async fn refused(url: &str) -> ConnectError {
    let start = Stopwatch::start();
    let error = within("a refusal", LockClient::connect(url)).await.unwrap_err();
    assert!(start.own() < ms(5_000) + SLACK, "{:?}", start.elapsed());
    assert!(matches!(error, ConnectError::Store(_)), "{error:?}");
    assert!(error.to_string().contains("certificate"), "what may be wrong: {error}");
    error
}

/// F32 (V6, V8): over TLS a lock lives as without, in one line with who uses none; a server whose
/// certificate nobody vouches for is refused.
#[tokio::test]
async fn tls_serves_locks_and_refuses_a_server_that_nobody_vouches_for() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, both] = ca_and_both(folder.path());
    let strangers = tempfile::tempdir().unwrap();
    let [stranger, _] = ca_and_both(strangers.path());
    let (server, port) = server_with(&both).await;
    let plain = connect(&server.at(LONG)).await;
    let locks = connect(&tls_url(port, &ca)).await;
    let held = plain.lock("k").await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.line_of("k", 2).await;
    let token = held.token();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > token, "a finding of safety: handed on over TLS");
    guard.release().await.unwrap();

    // The fixture's own session may have needed a second try: netty's server can end a connection
    // on which a client says who it is before it was welcomed, and keeps its session for a while.
    let before = server.sessions();
    refused(&tls_url(port, &stranger)).await;
    let of_others = |session: &Session| before.iter().all(|other| other.id != session.id);
    assert!(!server.sessions().iter().any(of_others), "who was refused has no session");
    nothing_left(&server, [plain, locks]).await;
}

/// F32 (V6): a quorum over TLS excludes one client while another holds, as without.
#[tokio::test]
async fn tls_serves_a_quorum() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, both] = ca_and_both(folder.path());
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(server_with(&both).await);
    }
    let hosts: Vec<_> = servers.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
    let query = format!("session=6s&lease_max=2s&ca={}", ca.display());
    let url = format!("zookeeper+quorum+tls://{}/locks?{query}", hosts.join(","));
    let options = LockOptions::new().with_lease(ms(2_000)).with_wait(ms(9_000));
    // Three servers that have just been started may take longer than a connect waits.
    let client = async || {
        loop {
            if let Ok(client) = LockClient::builder(&url).defaults(options).connect().await {
                return client;
            }
        }
    };
    let (a, b) = (within("a client", client()).await, within("another client", client()).await);
    let held = a.lock("k").await.unwrap();
    assert!(answered(&b, "k").await.is_none());
    let token = held.token();
    held.release().await.unwrap();
    let guard = b.lock("k").await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap();
}

/// F32 (V8): a server that speaks no TLS is refused in bounded time.
#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, _] = ca_and_both(folder.path());
    let server = Zoo::start().await;
    refused(&tls_url(server.port(), &ca)).await;
    nothing_left(&server, []).await;
}

/// F32: nothing is ever sent in the clear, whatever the first try came to.
#[tokio::test]
async fn a_client_that_is_told_to_use_tls_never_speaks_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, _] = ca_and_both(folder.path());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, first_bytes) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut first = [0];
            // Whoever ran out of time closes with nothing said.
            let spoke = matches!(stream.read(&mut first), Ok(1));
            if spoke && seen.send(first[0]).is_err() {
                return;
            }
        }
    });
    refused(&tls_url(port, &ca)).await;
    // A TLS handshake begins with 22; a session's first request with the zero of its length.
    let seen: Vec<u8> = first_bytes.try_iter().collect();
    assert!(!seen.is_empty() && seen.iter().all(|first| *first == 22), "{seen:?}");
}

/// F32 (V8): a file that is missing, or is none, is an error of the URL that names the parameter.
#[tokio::test]
async fn a_file_of_no_use_is_refused_with_its_parameter() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, _] = ca_and_both(folder.path());
    let empty = folder.path().join("san");
    for (query, part) in [
        (String::new(), "`ca`"),
        (format!("ca={}", empty.display()), "`ca`"),
        ("ca=/nowhere".into(), "`ca`"),
        (format!("ca={}&cert={}", ca.display(), ca.display()), "`key`"),
        (format!("ca={}&cert={}&key=/nowhere", ca.display(), ca.display()), "`key`"),
    ] {
        let url = format!("zookeeper+tls://127.0.0.1:1?{query}");
        let error = LockClient::connect(&url).await.unwrap_err();
        assert!(matches!(error, ConnectError::Url { .. }), "{query}: {error:?}");
        assert!(error.to_string().contains(part), "{query}: {error}");
    }
}
