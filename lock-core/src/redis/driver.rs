//! Redis in the table of drivers. Here without the feature `redis` too, see `schemes`.

#[cfg(feature = "redis")]
use super::pools::{quorum, store};
use super::schemes::{CLUSTER, QUORUM, SENTINEL, SERVER, SOCKET};
use crate::backend::Driver;
#[cfg(not(feature = "redis"))]
use crate::backend::{no_store as quorum, no_store as store};

/// A line for each scheme.
pub(crate) const DRIVERS: [Driver; 5] = [
    Driver::built_in(SERVER, store),
    Driver::built_in(SOCKET, store),
    Driver::built_in(SENTINEL, store),
    Driver::built_in(CLUSTER, store),
    Driver::built_in(QUORUM, quorum),
];
