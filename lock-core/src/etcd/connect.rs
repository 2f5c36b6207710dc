//! From a URL to a store.

use super::Etcd;
use super::target::Target;
use crate::backend::{ConnectError, Opening, StoreUrl, opening};

/// The cluster of these members.
pub(super) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    let target = Target::of(&url)?;
    Ok(opening(Etcd::open(target)))
}
