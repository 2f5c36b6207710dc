//! What an error of a database is about, as far as it matters to who has to do something about it.

/// What an error of a database is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// There is no such table.
    NoTable,
    /// The table has other columns, or another key.
    OtherShape,
    /// Another transaction writes, or has written what this one has read.
    Busy,
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

impl Trouble {
    /// By the code of SQLite, whose low byte is the kind, and for its general one by the text.
    pub(in crate::sql) fn of_sqlite(error: &sqlx::Error) -> Self {
        let sqlx::Error::Database(error) = error else { return Self::Other };
        let code = error.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
        match code & 0xff {
            5 | 6 | 15 => Self::Busy,
            8 => Self::ReadOnly,
            13 => Self::Full,
            14 => Self::CannotOpen,
            11 | 26 => Self::NoDatabase,
            1 => Self::of_text(error.message()),
            _ => Self::Other,
        }
    }

    fn of_text(text: &str) -> Self {
        let has = |part: &str| text.contains(part);
        if has("no such table") {
            Self::NoTable
        } else if has("no such column") || has("has no column named") || has("ON CONFLICT clause") {
            Self::OtherShape
        } else {
            Self::Other
        }
    }
}
