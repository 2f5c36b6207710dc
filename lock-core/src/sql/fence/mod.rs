//! The check inside the transaction that writes: a holder that was stopped past its lease cannot
//! commit. [`Fences`] has the whole of it.
//!
//! - `fences`: the table, and the check.
//! - `dialect`: what a database spells its own way; `sqlite`, `postgres`, `mysql`: theirs.
//! - `engines`: which tables are known to have transactions.
//! - `error`: what can go wrong.

mod dialect;
mod engines;
mod error;
mod fences;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use self::dialect::FenceDialect;
pub use self::error::FenceError;
pub use self::fences::Fences;
