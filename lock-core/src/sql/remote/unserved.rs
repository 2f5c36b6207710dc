//! The reason why a statement was not served.

use crate::sql::fault::DatabaseError;

/// The reason why a statement was not served.
#[derive(Debug)]
pub(in crate::sql) enum Unserved {
    /// Nothing was done, as others stood in the way. It may be asked again at once.
    Again(DatabaseError),
    /// Nothing was done, as a row was locked for too long. It may be asked again where there is the
    /// time to wait for as long again.
    #[cfg_attr(
        not(feature = "mysql"),
        allow(dead_code, reason = "others wait for nearly all of it")
    )]
    Waited(DatabaseError),
    /// Nothing was done.
    Refused(DatabaseError),
    /// The connection ended. What was asked may have taken effect.
    Gone(DatabaseError),
}

impl Unserved {
    pub(in crate::sql) fn error(self) -> DatabaseError {
        match self {
            Self::Again(error) | Self::Waited(error) | Self::Refused(error) | Self::Gone(error) => {
                error
            }
        }
    }
}
