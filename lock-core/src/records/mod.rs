//! The seam between the idempotency engine and a store of records: what a record is known by, the
//! verbs of a store, and the store in memory. That at Redis is in `redis/records/`, that in a
//! database in `sql/records/`, which `row` is the pure part of.
//!
//! - `id`: the name of a record, of a key and its `scope`. `fingerprint`: what was asked.
//! - `store`: the verbs of a store. `memory`: the store in this process.
//! - `row`: a record as a row, and what each verb makes of it. `table`: a store
//!   that is a table of a database.

mod fingerprint;
mod id;
mod memory;
pub(crate) mod row;
mod scope;
mod store;
mod table;

pub use self::fingerprint::{Fingerprint, FingerprintBuilder};
pub(crate) use self::id::Ids;
pub use self::id::RecordId;
pub use self::memory::MemoryRecords;
#[cfg(feature = "sql")]
pub(crate) use self::row::{Replaced, Row, State, Step};
pub use self::scope::Scope;
#[cfg(feature = "redis")]
pub(crate) use self::store::MARK_TTL;
pub use self::store::{
    BoxFuture, ClaimRecord, Claimed, Found, OnUnknown, Outcome, RECORD_TTL_MAX, RECORD_TTL_MIN,
    RecordStore, Written,
};
pub use self::table::RecordTable;
