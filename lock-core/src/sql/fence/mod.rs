//! The check inside the transaction that writes: a holder that was stopped past its lease cannot
//! commit. [`Fences`] has the whole of it.
//!
//! - `fences`: the table, and the check.
//! - `dialect`: the statements that a database spells its own way.
//! - `sqlite`, `postgres`, `mysql`: the dialect of each.
//! - `engines`: the tables that are known to have transactions.
//! - `error`: the reasons why a check did not pass.

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
