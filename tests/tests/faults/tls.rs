//! F32: TLS, with certificates that are made for the test.
//!
//! The platform's certificates are read once per process, from where `SSL_CERT_FILE` says, so the
//! client is a worker process with its own.

use std::path::{Path, PathBuf};

use tests::certificates::certificates;
use tests::port::free_port;
use tests::redis::{RedisOptions, RedisServer};
use tests::worker::Worker;

use crate::support::*;

fn worker(url: &str, roots: &Path) -> Worker {
    let roots = format!("SSL_CERT_FILE={}", roots.display());
    Worker::spawn("env", &["-u", "SSL_CERT_DIR", &roots, WORKER, "--url", url])
}

/// F32 (V6, V8): over TLS a lock lives as without; a server whose certificate nobody vouches for,
/// or that speaks no TLS, is refused, and nothing is ever sent in the clear.
#[tokio::test]
async fn tls_serves_locks_and_refuses_a_server_that_nobody_vouches_for() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, certificate, key] = certificates(folder.path());
    let strangers = tempfile::tempdir().unwrap();
    let [stranger, ..] = certificates(strangers.path());
    let port = free_port();
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let server = RedisServer::with(
        RedisOptions::new()
            .set("tls-port", &port.to_string())
            .set("tls-cert-file", &text(&certificate))
            .set("tls-key-file", &text(&key))
            .set("tls-ca-cert-file", &text(&ca))
            .set("tls-auth-clients", "no"),
    );
    let url = format!("rediss://127.0.0.1:{port}");

    let mut trusting = worker(&url, &ca);
    let held = connect(&server.url(), ms(5_000)).await.lock("k").await.unwrap();
    trusting.send("acquire k 5000");
    line_of(&server, "k", 1).await;
    let token = held.token().get();
    held.release().await.unwrap();
    assert!(trusting.reply().await.token() > token, "a finding of safety: handed on over TLS");
    trusting.ask("release").await.expect_success();
    trusting.send("exit");
    trusting.ended().await;

    let mut careful = worker(&url, &stranger);
    let reply = careful.reply().await;
    assert!(!reply.ok && reply.error() == "unavailable", "{reply:?}");
    let message = reply.message.unwrap().to_lowercase();
    assert!(message.contains("certificate"), "{message}");
    assert!(!careful.ended().await.success());

    // No plaintext fallback: the plain port is not spoken to in the clear.
    let plain = format!("redis+tls://127.0.0.1:{}", server.port());
    let mut strict = worker(&plain, &ca);
    assert_eq!(strict.reply().await.error(), "unavailable");
    assert!(!strict.ended().await.success());
    nothing_left(&server, []).await;
}
