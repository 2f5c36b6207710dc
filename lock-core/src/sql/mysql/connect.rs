//! From a URL to a store.

use std::sync::Arc;

use super::config::MysqlConfig;
use super::link::{Link, MysqlServer};
use super::{Mysql, MysqlDialect, prepare};
use crate::backend::{ConnectError, Opening, StoreUrl, opening};
use crate::sql::remote::opened;
use crate::sql::store::Store;

pub(in crate::sql) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    Ok(opening(MysqlConfig::of(&url)?.connect()))
}

impl MysqlConfig {
    /// Makes what is missing, see [`migrate`](crate::sql::migrate).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Store`], whose source is a [`DatabaseError`](crate::sql::DatabaseError).
    ///
    /// # Cancel safety
    ///
    /// Each statement is made as a whole or not at all; call it again.
    pub async fn migrate(&self) -> Result<(), ConnectError> {
        self.clone().create(true).open().await.map(drop)
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Store`], whose source is a [`DatabaseError`](crate::sql::DatabaseError):
    /// what is missing or wrong, and what to do.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped, beyond what [`create`](Self::create) made.
    pub async fn connect(self) -> Result<Mysql, ConnectError> {
        let link = self.open().await?;
        let home = link.home().clone();
        Ok(Mysql { store: Store::start(MysqlDialect::new(link), home) })
    }

    async fn open(&self) -> Result<Arc<Link>, ConnectError> {
        let server = MysqlServer { config: self.clone() };
        let prepare = |link: Arc<Link>, by| async move { prepare::prepare(&link, by).await };
        opened(server, self.schema(), prepare).await
    }
}
