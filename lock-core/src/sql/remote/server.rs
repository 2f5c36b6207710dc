//! A server, as its dialect describes it.

use std::fmt::Debug;
use std::future::Future;

use super::unserved::Unserved;

/// A server that keeps the locks, as its connections are made and its errors are read.
pub(in crate::sql) trait Server: Debug + Send + Sync + 'static {
    /// A connection.
    type Session: Debug + Send + 'static;

    /// The address of the server, for errors.
    fn place(&self) -> String;

    /// The most connections, one at least.
    fn connections(&self) -> u32;

    /// Connects. Not bounded in time.
    fn open(&self) -> impl Future<Output = Result<Self::Session, Unserved>> + Send;

    /// Asks whether there is somebody. Not bounded in time.
    fn ping(
        &self,
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The meaning of an error.
    fn unserved(&self, error: sqlx::Error) -> Unserved;
}
