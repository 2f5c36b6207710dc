//! From a URL to a store.

use super::config::SqliteConfig;
use crate::backend::{ConnectError, Opening, StoreUrl, opening};

pub(in crate::sql) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    Ok(opening(SqliteConfig::of(&url)?.connect()))
}
