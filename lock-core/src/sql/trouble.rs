//! The kinds of a database's errors, as far as they matter to who has to do something about them.

/// The kind of an error of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// There is no such table.
    NoTable,
    /// The table has other columns, or another key.
    OtherShape,
    /// Another transaction writes, or has written what this one has read.
    Busy,
    /// The server has ended the statement: it took too long, or was cancelled.
    Ended,
    /// The login has not the right to do this.
    NoRight,
    /// It may not be written.
    ReadOnly,
    /// There is no room left.
    Full,
    /// The file cannot be opened.
    CannotOpen,
    /// It is a file of another kind, or is damaged.
    NoDatabase,
    /// Anything else.
    Other,
}
