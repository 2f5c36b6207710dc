//! The store for clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::config::SqliteConfig;
use super::dialect::SqliteDialect;
use crate::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, ConnectError, Fault, Following,
    Renewal, StoreUrl, Terms, Withdrawal,
};
use crate::key::Key;
use crate::sql::claim::LeaseClaim;
use crate::sql::schemes::SQLITE;
use crate::sql::store::{REQUEST, Store};
use crate::view::Inspection;

/// The shortest lease that is renewed in time, also while others have the file.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Locks in a SQLite database. Cheap to clone; the clones share one connection.
#[derive(Clone)]
pub struct Sqlite {
    pub(super) store: Arc<Store<SqliteDialect>>,
}

/// A claim on a key in a SQLite database.
#[derive(Debug)]
pub struct SqliteClaim(LeaseClaim<SqliteDialect>);

impl Sqlite {
    /// Opens what a URL names, see [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped, beyond what `?create=true` made.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        SqliteConfig::of(&StoreUrl::parse(url, &[SQLITE])?)?.connect().await
    }

    /// Deletes the rows that nobody has used for `idle`, a hundred at a time, and says how many. The
    /// store does so by itself every hour, for rows that are idle for an hour. Tokens go on to grow:
    /// a new row begins at the clock, and a row that is ahead of it stays.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of the database.
    ///
    /// # Cancel safety
    ///
    /// What was begun runs to its end.
    pub async fn sweep(&self, idle: Duration) -> Result<u64, Fault> {
        let store = self.store.clone();
        let task = self.store.home.spawn(async move { store.sweep(idle).await });
        task.await.unwrap_or(Ok(0))
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").finish_non_exhaustive()
    }
}

impl Backend for Sqlite {
    type Claim = SqliteClaim;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            fifo: true,
            push: true,
            revocation: true,
            force_release: true,
            shared: true,
            permits: true,
            election: true,
            lease_min: LEASE_MIN,
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> SqliteClaim {
        SqliteClaim(LeaseClaim::new(self.store.clone(), key, id, terms, None))
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> SqliteClaim {
        let value = Some(value.clone());
        SqliteClaim(LeaseClaim::new(self.store.clone(), key, id, terms, value))
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        let key = key.clone();
        self.store.at_home(REQUEST, |store, by| async move { store.inspect(key, by).await }).await
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        let key = key.clone();
        let ask = self
            .store
            .at_home(REQUEST, |store, by| async move { store.request_revoke(key, by).await });
        ask.await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        let key = key.clone();
        let ask = self
            .store
            .at_home(REQUEST, |store, by| async move { store.force_release(key, by).await });
        ask.await
    }

    fn requests(&self) -> u64 {
        self.store.dialect.requests()
    }
}

impl Claim for SqliteClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.0.attempt().await
    }

    async fn changed(&mut self) -> Change {
        self.0.changed().await
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.0.renew().await
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.0.downgrade().await
    }

    async fn follow(&mut self) -> Result<Following, Fault> {
        self.0.follow().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.0.withdraw().await
    }
}
