//! From a URL to a store.

use super::config::MysqlConfig;
use crate::backend::{ConnectError, Opening, StoreUrl, opening};

pub(in crate::sql) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    Ok(opening(MysqlConfig::of(&url)?.connect()))
}
