//! Records in SQLite, and what a test has happen between two of their verbs.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use lock_core::FencingToken;
use lock_core::backend::Fault;
use lock_core::idempotency::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, Found, Outcome, RecordId, RecordStore,
    RecordTable, Written,
};
use lock_core::sql::SqlRecords;

type Deed = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// A store of records that does something before and after the first abort.
pub(crate) struct Gate {
    records: SqlRecords,
    before: Mutex<Option<Deed>>,
    after: Mutex<Option<Deed>>,
}

impl Gate {
    pub(crate) fn new(records: SqlRecords) -> Self {
        Self { records, before: Mutex::default(), after: Mutex::default() }
    }

    pub(crate) fn before_abort<F>(self, deed: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        *self.before.lock().expect("no panic") = Some(Box::new(|| Box::pin(deed())));
        self
    }

    pub(crate) fn after_abort<F>(self, deed: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        *self.after.lock().expect("no panic") = Some(Box::new(|| Box::pin(deed())));
        self
    }
}

async fn does(deed: &Mutex<Option<Deed>>) {
    let deed = deed.lock().expect("no panic").take();
    if let Some(deed) = deed {
        deed().await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl RecordStore for Gate {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        self.records.peek(id, fingerprint)
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        self.records.claim(id, record)
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        self.records.complete(id, token, outcome, ttl)
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        Box::pin(async move {
            does(&self.before).await;
            let written = self.records.abort(id, token).await;
            does(&self.after).await;
            written
        })
    }

    fn table(&self) -> Option<&RecordTable> {
        self.records.table()
    }
}
