//! Keys of a test's own on one server, and its clients.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::LockClient;
use tests::etcd::EtcdServer;
pub(crate) use tests::support::*;

/// The server of all tests of this binary that do nothing to it.
pub(crate) static SERVER: LazyLock<EtcdServer> = LazyLock::new(EtcdServer::start);

/// The path that the keys of one test begin with.
pub(crate) fn path() -> String {
    static PATHS: AtomicU32 = AtomicU32::new(0);
    format!("own-{}", PATHS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn client(path: &str) -> LockClient {
    client_at(&SERVER, path).await
}

pub(crate) async fn client_at(server: &EtcdServer, path: &str) -> LockClient {
    connect(&format!("{}/{path}?session=5s", server.url()), ms(30_000)).await
}
