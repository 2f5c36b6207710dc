//! How a key is shared.

use std::fmt;

/// How a key is shared. All modes of a key have one line: its head is granted the key as soon as
/// that is compatible with all who hold it, and nobody overtakes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Mode {
    /// One holder, beside nobody.
    #[default]
    Exclusive,
    /// Any number of holders, beside others of this mode. Served where
    /// [`Capabilities::shared`](crate::backend::Capabilities) holds.
    Shared,
    /// At most `of` holders, beside others of this mode who say the same of how many there are.
    /// Served where [`Capabilities::permits`](crate::backend::Capabilities) holds.
    Permit {
        /// The most holders, 1 to 1,024.
        of: u32,
    },
}

impl Mode {
    /// Whether one who holds a key in this mode has what one who asks for it in the `other` wants.
    pub(crate) fn covers(self, other: Self) -> bool {
        self == other || self == Self::Exclusive
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permit { of } => write!(f, "one of {of} permits"),
        }
    }
}
