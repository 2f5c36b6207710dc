//! The statements of a dialect.

use std::sync::Arc;

/// The texts, each made once, so that a connection finds what it has prepared. What each has to do
/// is said of the verbs of a [`Dialect`](super::dialect::Dialect), and what it is given and answers
/// is the same for all.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    /// Given the key, the claim, what it says of itself, the lease in ms, and the most tokens;
    /// answers `version, fence, fences, line <> ''`, or nothing.
    pub(super) take: Arc<str>,
    /// As [`take`](Self::take).
    pub(super) renew: Arc<str>,
    /// Given the key and the claim; the rows that it writes are counted.
    pub(super) give_back: Arc<str>,
    /// Given the key; answers [`COLUMNS`](super::read::COLUMNS) and the time in ms, in any case.
    pub(super) read: Arc<str>,
    /// Given the keys; answers `COLUMNS`, the time in ms and the key of each that is there.
    pub(super) read_all: Arc<str>,
    /// Given the first name, the one behind the last, and the most rows; answers names.
    pub(super) busy: Arc<str>,
    /// Given the key and `COLUMNS`; the rows that it writes are counted.
    pub(super) insert: Arc<str>,
    /// As [`insert`](Self::insert), and given the version of the row that it is put in place of.
    pub(super) update: Arc<str>,
    /// Given a name and how many rows there are before the one that it names, from there on.
    pub(super) behind: Arc<str>,
    /// Given the time in ms, the first name, and the one behind the last; the rows that it deletes are
    /// counted.
    pub(super) sweep: Arc<str>,
}
