//! The way from a URL to a store.

use futures_util::future::BoxFuture;

use super::ZooKeeper;
use super::target::Target;
use crate::backend::{ConnectError, Opening, StoreUrl, UrlError, opening};
use crate::ground::clock;
use crate::quorum::{MembershipConfig, Quorum};

/// One server, or an ensemble.
pub(super) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    let target = Target::of(&url)?;
    Ok(opening(ZooKeeper::open(target)))
}

/// One lock at a majority of independent servers.
///
/// The hosts of the URL are no ensemble: each is a server of its own, and would not know of the
/// others. Its lock directories are Curator's as ever, so a Java client at one of the servers
/// excludes a claim there, and there only.
///
/// It waits for a majority; the others are connected to when they are asked for something.
pub(super) fn quorum(url: StoreUrl) -> Result<Opening, ConnectError> {
    let (target, config) = (Target::of(&url)?, MembershipConfig::of(&url)?);
    let members = target.each().map(ZooKeeper::member_at).collect::<Result<_, _>>()?;
    let quorum = Quorum::managed(members, config).map_err(UrlError::from)?;
    Ok(opening(async move {
        clock::runtime().ok_or(ConnectError::NoRuntime)?;
        let waiting: BoxFuture<'_, _> = Box::pin(quorum.open());
        waiting.await.map_err(ConnectError::Store)?;
        Ok::<Quorum<ZooKeeper>, _>(quorum)
    }))
}
