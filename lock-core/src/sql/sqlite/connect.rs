//! From a URL to a store.

use std::sync::Arc;
use std::time::Duration;

use super::config::SqliteConfig;
use super::link::Link;
use super::{Sqlite, SqliteDialect};
use crate::backend::io::Home;
use crate::backend::{ConnectError, Fault, FaultKind, Opening, StoreUrl, opening};
use crate::ground::{Plus as _, clock};
use crate::sql::store::Store;

/// How long connecting and migrating may take.
const CONNECT: Duration = Duration::from_secs(5);

pub(in crate::sql) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    Ok(opening(SqliteConfig::of(&url)?.connect()))
}

impl SqliteConfig {
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
        drop(self.clone().create(true).open().await?);
        Ok(())
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Store`], whose source is a [`DatabaseError`](crate::sql::DatabaseError):
    /// what is missing or wrong, and what to do.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped, beyond what [`create`](Self::create) made.
    pub async fn connect(self) -> Result<Sqlite, ConnectError> {
        let home = Home::shared().map_err(ConnectError::Store)?;
        let dialect = SqliteDialect::new(self.open().await?);
        Ok(Sqlite { store: Store::start(dialect, home) })
    }

    async fn open(&self) -> Result<Link, ConnectError> {
        let home = Home::shared().map_err(ConnectError::Store)?;
        let link = Arc::new(Link::new(self.clone(), home.clone()));
        let by = clock::now().plus(CONNECT);
        let opening = link.clone();
        let task = home.spawn(async move { opening.check(by).await });
        let late = || Fault::new(FaultKind::Transient, format!("no answer within {CONNECT:?}"));
        let answer = match home.timeout_at(by, task).await {
            Ok(Ok(answer)) => answer,
            _ => Err(late()),
        };
        answer.map_err(ConnectError::Store)?;
        Arc::into_inner(link).ok_or_else(|| ConnectError::Store(late()))
    }
}
