//! What the suites of all databases share.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lock_core::sql::DatabaseError;
use lock_core::{LockClient, LockOptions};

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

    /// That of the others, or a new one.
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

/// What is wrong with the database, somewhere behind an error.
///
/// # Panics
///
/// Where that is of something else.
pub fn database_error(error: &(dyn Error + 'static)) -> DatabaseError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<DatabaseError>() {
            return found.clone();
        }
        next = error.source();
    }
    panic!("no error of a database: {error:?}")
}

/// One try, which is told what is wrong.
#[must_use]
pub fn once() -> LockOptions {
    LockOptions::new().with_wait(ms(500)).with_lease(ms(30_000))
}
