//! The busy keys of a store, in all processes.

use super::Inspection;
use crate::key::Key;

/// Keys that are busy at a store: somebody holds them or waits for them, in any process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KeyList {
    /// The keys, each once, in no order. One that was given back just now may be among them.
    pub keys: Vec<Key>,
    /// Whether these are all.
    pub is_whole: bool,
}

impl KeyList {
    /// The first `max` of those that a backend has found, and whether that are all; `is_whole` says
    /// whether it has looked everywhere.
    #[must_use]
    pub fn new(found: impl IntoIterator<Item = Key>, max: usize, is_whole: bool) -> Self {
        let mut found = found.into_iter();
        let keys = found.by_ref().take(max).collect();
        Self { keys, is_whole: is_whole && found.next().is_none() }
    }
}

/// The busy keys of a store with their holders and waiters, each as the store saw it when asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Inspections {
    /// The keys, sorted.
    pub keys: Vec<(Key, Inspection)>,
    /// Whether these are all.
    pub is_whole: bool,
}
