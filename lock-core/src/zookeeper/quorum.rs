//! `zookeeper+quorum://`: one lock at a majority of independent servers.
//!
//! The hosts of the URL are no ensemble: each is a server of its own, and would not know of the
//! others. Its lock directories are Curator's as ever, so a Java client at one of the servers
//! excludes a claim there, and there only.

use super::ZooKeeper;
use super::url::Target;
use crate::error::ConnectError;
use crate::quorum::Quorum;

/// Waits for a majority; the others are connected to when they are asked for something.
pub(crate) async fn connect(url: &str) -> Result<Quorum<ZooKeeper>, ConnectError> {
    let (targets, config) = Target::parse_quorum(url)?;
    let members = targets.into_iter().map(ZooKeeper::member_at).collect::<Result<_, _>>()?;
    let quorum = Quorum::managed(members, config);
    let quorum = quorum.map_err(|error| ConnectError::Url { reason: error.to_string() })?;
    quorum.open().await.map_err(ConnectError::Store)?;
    Ok(quorum)
}
