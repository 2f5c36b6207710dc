//! The data on the server's disk before a grant is answered.

#[cfg(feature = "idempotency")]
use crate::backend::{UrlError, UrlPart};

/// The data that has to be on the server's disk before a grant is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// As the server is configured, which is all.
    #[default]
    Full,
    /// Nothing (`synchronous_commit = off` of PostgreSQL): a key that changes hands often does so
    /// faster. A server that crashes forgets the last moments, and can grant a key that is held.
    /// Tokens grow all the same. MySQL and MariaDB have no such setting for a connection, and
    /// refuse this one.
    Async,
}

#[cfg(feature = "idempotency")]
impl Durability {
    /// Whether records are served so.
    pub(in crate::sql) fn keeps_records(self) -> Result<(), UrlError> {
        match self {
            Self::Full => Ok(()),
            Self::Async => {
                let what = "`durability=async` is for locks: an outcome that was acknowledged must be kept";
                Err(UrlError::new(UrlPart::Parameters, what.to_owned()))
            }
        }
    }
}
