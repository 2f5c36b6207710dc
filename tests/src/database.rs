//! Helpers that the suites of all databases share.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lock_core::backend::Fault;
use lock_core::error::{ConnectError, OperatorError, ReleaseError, UnavailableError};
use lock_core::sql::DatabaseError;
use lock_core::{AcquireError, LockClient, LockOptions};

use crate::support::ms;

/// A fixture that those share who have it at a time.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// There is none yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// The fixture of the others, or a new one.
    pub fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.upgrade().unwrap_or_else(|| {
            let fixture = Arc::new(start());
            *place = Arc::downgrade(&fixture);
            fixture
        })
    }
}

/// Why a client is refused at this URL.
///
/// # Panics
///
/// Where it is not.
pub async fn refused(url: &str) -> DatabaseError {
    let error = LockClient::connect(url).await.expect_err("there is nothing to connect to");
    database_error(&error)
}

/// The fault of a store, by an error that tells of it.
fn fault_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Fault> {
    if let Some(ConnectError::Store(fault)) = error.downcast_ref() {
        return Some(fault);
    }
    let unavailable = if let Some(AcquireError::Unavailable(error)) = error.downcast_ref() {
        Some(error)
    } else if let Some(ReleaseError::Unavailable(error)) = error.downcast_ref() {
        Some(error)
    } else if let Some(OperatorError::Unavailable(error)) = error.downcast_ref() {
        Some(error)
    } else {
        error.downcast_ref()
    };
    unavailable.map(UnavailableError::fault).or_else(|| error.downcast_ref())
}

/// The trouble with the database, by an error that tells of it.
///
/// # Panics
///
/// Where that is of something else.
pub fn database_error(error: &(dyn Error + 'static)) -> DatabaseError {
    found_of_database(error).unwrap_or_else(|| panic!("no error of a database: {error:?}"))
}

/// The same, where there is one.
#[must_use]
pub fn found_of_database(error: &(dyn Error + 'static)) -> Option<DatabaseError> {
    let cause = fault_of(error).and_then(Fault::cause)?;
    cause.downcast_ref::<DatabaseError>().cloned()
}

/// One try, which is told what is wrong.
#[must_use]
pub fn once() -> LockOptions {
    LockOptions::new().with_wait(ms(500)).with_lease(ms(30_000))
}
