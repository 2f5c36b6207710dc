//! F32: a cluster over TLS, with certificates that are made for the test.
//!
//! The platform's certificates are read once per process, from where `SSL_CERT_FILE` says, so the
//! client is a worker process with its own.

use std::path::{Path, PathBuf};

use tests::certificates::certificates;
use tests::redis::{RedisCluster, RedisOptions};
use tests::worker::Worker;

use crate::support::*;

fn worker(url: &str, roots: &Path) -> Worker {
    let roots = format!("SSL_CERT_FILE={}", roots.display());
    Worker::spawn("env", &["-u", "SSL_CERT_DIR", &roots, WORKER, "--url", url])
}

/// F32 (V6, V8): over TLS a lock lives as without, at every node; a cluster whose certificate
/// nobody vouches for is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_serves_locks_at_every_node_of_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, certificate, key] = certificates(folder.path());
    let strangers = tempfile::tempdir().unwrap();
    let [stranger, ..] = certificates(strangers.path());
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let options = RedisOptions::new()
        .set("tls-cert-file", &text(&certificate))
        .set("tls-key-file", &text(&key))
        .set("tls-ca-cert-file", &text(&ca))
        .set("tls-auth-clients", "no");
    let cluster = RedisCluster::with(options).await;
    let plain = connect(&cluster.url(), ms(10_000)).await;
    let mut trusting = worker(&cluster.url_tls(), &ca);
    for n in 0..6 {
        let key = format!("k:{n}");
        let held = plain.lock(key.as_str()).await.unwrap();
        trusting.send(&format!("acquire {key} 5000"));
        line_of(&cluster, &key, 1).await;
        let token = held.token().get();
        held.release().await.unwrap();
        assert!(trusting.reply().await.token() > token);
        trusting.ask("release").await.expect_success();
    }
    trusting.send("exit");
    trusting.ended().await;

    let mut careful = worker(&cluster.url_tls(), &stranger);
    let reply = careful.reply().await;
    assert!(!reply.ok && reply.error() == "unavailable", "{reply:?}");
    assert!(!careful.ended().await.success());
    nothing_left(&cluster, [plain]).await;
}
