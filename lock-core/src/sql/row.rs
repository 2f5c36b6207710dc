//! The lease row of a key.

/// The columns of a row, but for the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Another one after each change.
    pub(super) version: i64,
    /// The last token that was reserved for the key.
    pub(super) fence: i64,
    /// The size of the block that ends with it.
    pub(super) fences: i64,
    /// The first holder, if there is any.
    pub(super) holder: Option<String>,
    /// What it is for, for people.
    pub(super) about: String,
    /// When its lease ends, in milliseconds since 1970; in the past if there is none.
    pub(super) until: i64,
    /// What there is to say of holders beyond that; empty for one that holds the key alone.
    pub(super) holders: String,
    /// Who waits, in order.
    pub(super) line: String,
}
