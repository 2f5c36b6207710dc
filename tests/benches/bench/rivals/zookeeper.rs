//! Bare requests of `zookeeper-client`: what no lock on ZooKeeper can go below.

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::Rival;

/// As long as the nodes of the locks, which the server writes to its log.
const NODE: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-";

/// Creates a numbered node, lists its directory and deletes it, whoever else is in line.
#[derive(Clone)]
pub(crate) struct BareZooKeeper {
    client: Client,
    /// Whether the list is sent before the answer to the create has come.
    pipelined: bool,
}

impl BareZooKeeper {
    pub(crate) async fn connect(url: &str, pipelined: bool) -> Self {
        let servers = url.strip_prefix("zookeeper://").expect("a URL of the fixture");
        BareZooKeeper { client: Client::connect(servers).await.expect("a server"), pipelined }
    }

    /// The number of the new node.
    async fn create_and_list(&self, directory: &str) -> Result<i64, Error> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let prefix = format!("{directory}/{NODE}");
        let create = self.client.create(&prefix, b"", &options);
        let ((_, number), _) = if self.pipelined {
            // Both are sent by their calls.
            let list = self.client.list_children(directory);
            let (created, listed) = tokio::join!(create, list);
            (created?, listed?)
        } else {
            (create.await?, self.client.list_children(directory).await?)
        };
        Ok(number.into_i64())
    }
}

impl Rival for BareZooKeeper {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let directory = format!("/{key}");
        let number = loop {
            match self.create_and_list(&directory).await {
                Ok(number) => break number,
                Err(Error::NoNode) => {
                    let options = CreateMode::Container.with_acls(Acls::anyone_all());
                    self.client.mkdir(&directory, &options).await.expect("a server");
                }
                Err(error) => panic!("create and list: {error}"),
            }
        };
        held().await;
        let node = format!("{directory}/{NODE}{number:010}");
        self.client.delete(&node, None).await.expect("a node of our own");
    }
}
