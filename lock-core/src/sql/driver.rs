//! Databases in the table of drivers. Here without their features too, see `schemes`.

#[cfg(feature = "mysql")]
use super::mysql::connect::store as mysql;
#[cfg(feature = "postgres")]
use super::postgres::connect::store as postgres;
use super::schemes::{MARIADB, MYSQL, POSTGRES, SQLITE};
#[cfg(feature = "sqlite")]
use super::sqlite::connect::store as sqlite;
use crate::backend::Driver;
#[cfg(not(feature = "mysql"))]
use crate::backend::no_store as mysql;
#[cfg(not(feature = "postgres"))]
use crate::backend::no_store as postgres;
#[cfg(not(feature = "sqlite"))]
use crate::backend::no_store as sqlite;

/// A line for each scheme.
pub(crate) const DRIVERS: [Driver; 4] = [
    Driver::built_in(SQLITE, sqlite),
    Driver::built_in(POSTGRES, postgres),
    Driver::built_in(MYSQL, mysql),
    Driver::built_in(MARIADB, mysql),
];
