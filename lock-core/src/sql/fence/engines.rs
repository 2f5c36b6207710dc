//! The tables that are known to be kept by an engine with transactions.
//!
//! To ask for it costs a database as much as the check of a fence does, so it is asked once for
//! each place. A table that is given another engine later is not found out.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use crate::ground::lock;
use crate::sql::TableName;

/// More places than a process writes to. All are asked anew beyond that.
const PLACES_MAX: usize = 1_024;

/// The server with the database, and the table.
type Table = (String, String);

static GOOD: LazyLock<Mutex<HashSet<Table>>> = LazyLock::new(Mutex::default);

pub(super) fn is_known(place: &str, table: &TableName) -> bool {
    lock(&GOOD).contains(&(place.to_owned(), table.to_string()))
}

pub(super) fn is_good(place: String, table: &TableName) {
    let mut good = lock(&GOOD);
    if good.len() >= PLACES_MAX {
        good.clear();
    }
    good.insert((place, table.to_string()));
}
