//! Directories, made as container nodes.
//!
//! A server removes an empty container only if it has had a child. So a directory, and what is
//! missing above it, is made in one transaction with a first child, which may go in the same
//! transaction. Whatever happens to its maker then, it does not stay.

use std::future::Future;
use std::time::Instant;

use zookeeper_client::{CreateMode, Error, MultiWriteError, MultiWriter};

use super::{Answer, Session};
use crate::ground::clock;
use crate::zookeeper::fault::Failure;
use crate::zookeeper::names;

/// The first child of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) enum First<'a> {
    /// A node that nobody ever sees: the transaction deletes it.
    Passing,
    /// An ephemeral node of the session, of this path.
    Session(&'a str),
}

/// The failure of a transaction, and which of its operations failed.
type Made = Result<(), (usize, Error)>;

/// The number of directories on a path.
fn depth(path: &str) -> usize {
    path.matches('/').count()
}

impl Session {
    /// Makes one directory, whose parent is there. Sent when called.
    pub(in crate::zookeeper) fn make<'a>(
        &'a self,
        path: &'a str,
        until: Instant,
    ) -> impl Future<Output = Answer<()>> + 'a {
        let made = self.make_lowest(path, 1, First::Passing, until);
        async move {
            match made.await? {
                Ok(()) | Err((0, Error::NodeExists)) => Ok(()),
                Err((_, error)) => Err(Failure::of(error)),
            }
        }
    }

    /// Makes a directory and all above it. The server may remove it before it is used.
    pub(in crate::zookeeper) async fn make_directory(
        &self,
        path: &str,
        until: Instant,
    ) -> Answer<()> {
        self.make_all(path, First::Passing, until).await
    }

    /// Makes a directory, all above it and its first child.
    pub(super) async fn make_all(
        &self,
        path: &str,
        first: First<'_>,
        until: Instant,
    ) -> Answer<()> {
        let depth = depth(path);
        // A session's directory is there but for the first of all sessions.
        let mut missing = usize::from(matches!(first, First::Passing));
        loop {
            match self.make_lowest(path, missing, first, until).await? {
                Ok(()) => return Ok(()),
                Err((0, Error::NoNode)) if missing < depth => missing += 1,
                // Somebody has made some of them since, or all, or an earlier request has whose
                // reply was lost.
                Err((nth, Error::NodeExists)) => match (missing.checked_sub(nth + 1), first) {
                    (None, _) | (Some(0), First::Passing) => return Ok(()),
                    (Some(rest), _) => missing = rest,
                },
                Err((_, error)) => return Err(Failure::of(error)),
            }
        }
    }

    /// Makes the lowest directories of a path and the first child. Sent when called.
    fn make_lowest(
        &self,
        path: &str,
        missing: usize,
        first: First<'_>,
        until: Instant,
    ) -> impl Future<Output = Answer<Made>> {
        let sent = clock::now();
        let request = self.transaction(path, missing, first).map(|mut writer| writer.commit());
        self.tell(sent, until, async move {
            match request?.await {
                Ok(_) => Ok(Ok(())),
                Err(MultiWriteError::OperationFailed { index, source }) => Ok(Err((index, source))),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn transaction(
        &self,
        path: &str,
        missing: usize,
        first: First<'_>,
    ) -> Result<MultiWriter<'_>, Error> {
        let mut writer = self.client.new_multi_writer();
        let container = CreateMode::Container.with_acls(self.acls);
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        let there = depth(path) - missing;
        for end in ends.skip(there) {
            writer.add_create(&path[..end], b"", &container)?;
        }
        let ephemeral = CreateMode::Ephemeral.with_acls(self.acls);
        match first {
            First::Passing => {
                let child = names::passing(path);
                writer.add_create(&child, b"", &ephemeral)?;
                writer.add_delete(&child, None)?;
            }
            First::Session(node) => writer.add_create(node, b"", &ephemeral)?,
        }
        Ok(writer)
    }
}
