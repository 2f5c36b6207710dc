//! The name of a lock as a small number, so that each hold can keep it.

/// The number of the name of a lock, in the table of those that have series of their own; or that
/// it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LockName(u16);

#[cfg(feature = "metrics")]
impl LockName {
    /// That of the entry at this place of the table.
    pub(crate) fn at(place: u16) -> Self {
        Self(place.saturating_add(1))
    }

    /// The place in the table; `None` without a name.
    pub(crate) fn place(self) -> Option<usize> {
        self.0.checked_sub(1).map(usize::from)
    }
}
