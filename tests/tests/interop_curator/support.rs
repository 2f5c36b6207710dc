//! Helpers that the tests of this binary share.

use std::time::Duration;

use lock_core::test_util::AnyBackend;
use lock_core::zookeeper::ZooKeeper;
use lock_core::{LockClient, LockOptions};
use tests::curator::Curator;
use tests::support::ms;
use tests::wait::{PATIENCE, eventually, within};
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_worker");
pub(crate) const KEY: &str = "order:42";
pub(crate) const PATH: &str = "/locks/order:42";
/// A hold of ours is good for two thirds of it.
const SESSION: Duration = Duration::from_secs(4);

pub(crate) struct Both {
    pub(crate) server: ZooKeeperServer,
    pub(crate) java: Curator,
    pub(crate) rust: LockClient,
}

pub(crate) async fn both() -> Both {
    let server = ZooKeeperServer::with(ZooKeeperOptions::new().tick_ms(500));
    let java = Curator::start(&server.connect_string(), SESSION).await;
    let options = LockOptions::new().with_wait(PATIENCE).with_name("interop");
    let builder = LockClient::builder(url(&server)).defaults(options);
    let rust = builder.connect().await.expect("a client");
    Both { server, java, rust }
}

pub(crate) fn url(server: &ZooKeeperServer) -> String {
    server.url() + "/locks?session=4s"
}

impl Both {
    /// Waits until so many stand in line, the holder included.
    pub(crate) async fn line_of(&self, count: usize) -> Vec<String> {
        let line = async {
            loop {
                let nodes = self.java.participants(PATH).await.unwrap();
                if nodes.len() == count {
                    return nodes;
                }
                tokio::time::sleep(ms(5)).await;
            }
        };
        within("the line", line).await
    }

    pub(crate) async fn nobody_is_left(&self) {
        eventually("the directory is gone", || self.server.node(PATH).is_none()).await;
    }
}

/// A process of ours, whose exclusive claims are as `params` of the URL say.
pub(crate) async fn process(both: &Both, params: &str) -> AnyBackend {
    let opened = ZooKeeper::connect(&(url(&both.server) + params)).await;
    AnyBackend::new(opened.expect("a server that answers"))
}
