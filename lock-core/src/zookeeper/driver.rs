//! ZooKeeper in the table of drivers. Here without the feature `zookeeper` too, see `schemes`.

#[cfg(feature = "zookeeper")]
use super::connect::{quorum, store};
use super::schemes::{QUORUM, SERVERS};
use crate::backend::Driver;
#[cfg(not(feature = "zookeeper"))]
use crate::backend::{no_store as quorum, no_store as store};

/// A line for each scheme.
pub(crate) const DRIVERS: [Driver; 2] =
    [Driver::built_in(SERVERS, store), Driver::built_in(QUORUM, quorum)];
