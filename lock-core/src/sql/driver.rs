//! Databases in the table of drivers. Here without their features too, see `schemes`.

use super::schemes::SQLITE;
#[cfg(feature = "sqlite")]
use super::sqlite::connect::store as sqlite;
use crate::backend::Driver;
#[cfg(not(feature = "sqlite"))]
use crate::backend::no_store as sqlite;

/// A line for each scheme.
pub(crate) const DRIVERS: [Driver; 1] = [Driver::built_in(SQLITE, sqlite)];
