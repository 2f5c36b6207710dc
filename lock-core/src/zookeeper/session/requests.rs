//! The requests of a session.

use std::future::Future;
use std::time::Instant;

use zookeeper_client::{CreateMode, Error, MultiWriteError, OneshotWatcher, Stat};

use super::{Answer, Session};
use crate::ground::clock;

impl Session {
    /// Creates a node of this session that the server numbers; its number and the transaction.
    pub(in crate::zookeeper) fn create<'a>(
        &'a self,
        prefix: &'a str,
        data: &[u8],
        until: Instant,
    ) -> impl Future<Output = Answer<(i64, u64)>> + 'a {
        let sent = clock::now();
        let options = CreateMode::EphemeralSequential.with_acls(self.acls);
        let request = self.client.create(prefix, data, &options);
        async move {
            let (stat, sequence) = self.tell(sent, until, request).await?;
            Ok((sequence.into_i64(), czxid(&stat)))
        }
    }

    /// The names of all children.
    pub(in crate::zookeeper) fn list<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<Vec<String>>> + 'a {
        self.ask(until, self.client.list_children(path))
    }

    /// Brings the server that we talk to up to date with the leader.
    pub(in crate::zookeeper) fn sync<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        self.ask(until, self.client.sync(path))
    }

    /// The session that a node belongs to, and its czxid; `None` if it is not there.
    pub(in crate::zookeeper) fn owner<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<Option<(i64, u64)>>> + 'a {
        let request = self.client.check_stat(path);
        async move {
            let stat = self.ask(until, request).await?;
            Ok(stat.map(|stat| (stat.ephemeral_owner, czxid(&stat))))
        }
    }

    /// The data of a node, and what goes with it.
    pub(in crate::zookeeper) fn get<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<u8>, Stat)>> + 'a {
        self.ask(until, self.client.get_data(path))
    }

    /// Replaces the data of a node, if they are of this version still.
    pub(in crate::zookeeper) fn set<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        version: Option<i32>,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let sent = clock::now();
        let request = self.client.set_data(path, data, version);
        async move { self.tell(sent, until, request).await.map(drop) }
    }

    /// The data of a node, and word when they change or the node goes.
    pub(in crate::zookeeper) fn watch_data<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<u8>, Stat, OneshotWatcher)>> + 'a {
        self.ask(until, self.client.get_and_watch_data(path))
    }

    /// The names of all children, and word when one comes or goes.
    pub(in crate::zookeeper) fn watch_children<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(Vec<String>, OneshotWatcher)>> + 'a {
        self.ask(until, self.client.list_and_watch_children(path))
    }

    /// Tells whether a node is there, and sends word when it comes, goes or changes.
    pub(in crate::zookeeper) fn watch_presence<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<(bool, OneshotWatcher)>> + 'a {
        let request = self.client.check_and_watch_stat(path);
        async move {
            let (stat, watcher) = self.ask(until, request).await?;
            Ok((stat.is_some(), watcher))
        }
    }

    /// Deletes a node.
    pub(in crate::zookeeper) fn delete<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let sent = clock::now();
        let request = self.client.delete(path, None);
        self.tell(sent, until, request)
    }

    /// Deletes a node unless another is missing; whether it is gone.
    pub(in crate::zookeeper) fn delete_beside<'a>(
        &'a self,
        path: &'a str,
        other: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<bool>> + 'a {
        let sent = clock::now();
        let mut both = self.client.new_multi_writer();
        let added = both.add_check_version(other, -1).and_then(|()| both.add_delete(path, None));
        let request = added.map(|()| both.commit());
        self.tell(sent, until, async move {
            match request?.await {
                Ok(_) => Ok(true),
                Err(MultiWriteError::OperationFailed { index, source: Error::NoNode }) => {
                    Ok(index > 0)
                }
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// The transaction that created a node; greater than that of every node before it.
pub(in crate::zookeeper) fn czxid(stat: &Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
