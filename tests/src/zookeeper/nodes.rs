//! Looking at the nodes of a running server, and changing them by hand.

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::admin::Admin;
use super::server::ZooKeeperServer;
use super::transactions::containers;

/// One node as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The whole path.
    pub path: String,
    /// Its data.
    pub data: Vec<u8>,
    /// The id of the session that it ends with; `None` if it is not ephemeral.
    pub ephemeral_owner: Option<i64>,
    /// The number of the change that created it.
    pub czxid: i64,
    /// How often its data was set.
    pub version: i32,
    /// True if the server removes it after its last child. A member of an ensemble that was sent
    /// the node in a snapshot does not tell.
    pub is_container: bool,
}

/// Nodes, read and written with every right. Each call blocks the calling thread, at most 5 s for
/// each request, and panics if the server does not carry it out.
impl ZooKeeperServer {
    /// Every node at `path` and under it, sorted by path. The root itself and ZooKeeper's own
    /// `/zookeeper` are left out, and so are nodes that vanish while they are listed.
    #[must_use]
    pub fn tree(&self, path: &str) -> Vec<Node> {
        let top = path.to_owned();
        let mut nodes = self.ask("list", path, |client| async move { collect(&client, top).await });
        nodes.sort_by(|a, b| a.path.cmp(&b.path));
        self.tell_containers(nodes.iter_mut());
        nodes
    }

    /// One node, if it exists.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<Node> {
        let wanted = path.to_owned();
        let mut node = self.ask("read", path, |client| async move { read(&client, &wanted).await });
        self.tell_containers(node.iter_mut());
        node
    }

    /// The names of the children of `path`, sorted; none if it does not exist.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<String> {
        let parent = path.to_owned();
        let mut names =
            self.ask("list", path, |client| async move { list(&client, &parent).await });
        names.sort();
        names
    }

    /// Creates a node that anyone may do anything to, and returns its path with its sequence. An
    /// ephemeral one is the fixture's: it lives until the server is stopped or killed.
    ///
    /// # Panics
    ///
    /// If it exists or its parent does not.
    pub fn create(&self, path: &str, data: impl AsRef<[u8]>, mode: CreateMode) -> String {
        let (wanted, data) = (path.to_owned(), data.as_ref().to_vec());
        self.ask("create", path, |client| async move {
            let options = mode.with_acls(Acls::anyone_all());
            let (_, sequence) = client.create(&wanted, &data, &options).await?;
            Ok(match mode {
                CreateMode::PersistentSequential | CreateMode::EphemeralSequential => {
                    format!("{wanted}{sequence}")
                }
                _ => wanted,
            })
        })
    }

    /// Sets the data of a node, whatever its version.
    ///
    /// # Panics
    ///
    /// If it does not exist.
    pub fn set_data(&self, path: &str, data: impl AsRef<[u8]>) {
        let (wanted, data) = (path.to_owned(), data.as_ref().to_vec());
        self.ask("write", path, |client| async move {
            client.set_data(&wanted, &data, None).await.map(drop)
        });
    }

    /// Deletes a node, whatever its version; false if it did not exist.
    ///
    /// # Panics
    ///
    /// If it has children.
    pub fn delete(&self, path: &str) -> bool {
        let wanted = path.to_owned();
        self.ask("delete", path, |client| async move {
            unless_gone(client.delete(&wanted, None).await.map(|()| true))
        })
    }

    /// Deletes a node with its children, all at once: nobody sees a part of them.
    ///
    /// # Panics
    ///
    /// If a child comes or goes meanwhile, or has children.
    pub fn delete_with_children(&self, path: &str) {
        let top = path.to_owned();
        self.ask("delete all of", path, |client| async move {
            let mut all = client.new_multi_writer();
            for child in list(&client, &top).await? {
                all.add_delete(&format!("{top}/{child}"), None)?;
            }
            all.add_delete(&top, None)?;
            all.commit().await?;
            Ok(())
        });
    }

    /// ZooKeeper tells clients that a container is a plain node; its log has the difference.
    fn tell_containers<'a>(&self, nodes: impl Iterator<Item = &'a mut Node>) {
        let mut lasting = nodes.filter(|node| node.ephemeral_owner.is_none()).peekable();
        if lasting.peek().is_none() {
            return;
        }
        let births = containers(self.folder());
        for node in lasting {
            node.is_container = births.contains(&(node.czxid, node.path.clone()));
        }
    }

    /// Runs `work` over the fixture's session.
    fn ask<T, F, W>(&self, what: &str, path: &str, work: W) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
        W: FnOnce(Client) -> F,
    {
        let mut asked = self.asked.lock().expect("no fixture panicked");
        let admin = match asked.admin.take().filter(Admin::is_usable) {
            Some(admin) => Ok(admin),
            None => Admin::connect(self.addr()),
        };
        let answer = admin.and_then(|admin| {
            let mut own = self.own_sessions.lock().expect("no fixture panicked");
            if !own.contains(&admin.session_id()) {
                own.push(admin.session_id());
            }
            drop(own);
            let answer = admin.run(work);
            asked.admin = Some(admin);
            answer
        });
        drop(asked);
        answer.unwrap_or_else(|error| panic!("{what} {path}: {error}"))
    }
}

/// The nodes at `top` and under it.
async fn collect(client: &Client, top: String) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    let mut left = vec![top];
    while let Some(path) = left.pop() {
        for name in list(client, &path).await? {
            let child = format!("{}/{name}", path.trim_end_matches('/'));
            if child != "/zookeeper" {
                left.push(child);
            }
        }
        if path != "/" {
            nodes.extend(read(client, &path).await?);
        }
    }
    Ok(nodes)
}

async fn list(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    unless_gone(client.list_children(path).await)
}

async fn read(client: &Client, path: &str) -> Result<Option<Node>, Error> {
    let found = unless_gone(client.get_data(path).await.map(Some))?;
    Ok(found.map(|(data, stat)| {
        let owner = stat.ephemeral_owner;
        Node {
            path: path.to_owned(),
            data,
            ephemeral_owner: (owner != 0).then_some(owner),
            czxid: stat.czxid,
            version: stat.version,
            is_container: false,
        }
    }))
}

/// Takes a node that is gone for nothing.
fn unless_gone<T: Default>(answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(Error::NoNode) => Ok(T::default()),
        answer => answer,
    }
}
