//! etcd in the table of drivers. Here without the feature `etcd` too, see `schemes`.

#[cfg(feature = "etcd")]
use super::connect::store;
use super::schemes::MEMBERS;
use crate::backend::Driver;
#[cfg(not(feature = "etcd"))]
use crate::backend::no_store as store;

/// One line.
pub(crate) const DRIVERS: [Driver; 1] = [Driver::built_in(MEMBERS, store)];
