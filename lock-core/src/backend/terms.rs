//! The terms on which a claim is opened, and their bounds.

use std::time::Duration;

use crate::mode::Mode;

#[cfg(doc)]
use super::{Attempt, Fault};

/// The replicas that must acknowledge a grant before it counts, and the time that they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// The number of them, 1 to 32.
    pub count: u32,
    /// The time that they have, 1 ms to 1 s.
    pub timeout: Duration,
}

/// The terms on which a claim is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The time that a grant lives at the store without a renewal.
    pub lease: Duration,
    /// The mode in which the key is held.
    pub mode: Mode,
    /// The most tokens worth reserving with one grant.
    pub tokens_max: u32,
    /// The number of tokens that are likely to be taken before the claim is given back. It goes by
    /// what the last one took; 0 if that is not known. A store whose tokens are a measure of time
    /// reserves no more than are of use.
    pub tokens_likely: u32,
    /// Whether the claim may stand in line. A claim that may not is granted the key at once, or is
    /// [`Attempt::Blocked`] and has left nothing at the store.
    pub queues: bool,
    /// The purpose of the claim, shown to operators where the store has a place for it.
    pub name: Option<&'static str>,
    /// The replicas that must acknowledge a grant before an attempt tells of it; fewer are a
    /// [`Fault::not_replicated`]. None is asked for where
    /// [`Capabilities::replicas`](super::Capabilities::replicas) does not hold.
    pub replicas: Option<Replicas>,
}

impl Replicas {
    /// Whether a grant that was acknowledged as `other` says will do.
    pub(crate) fn is_met_by(self, other: Option<Self>) -> bool {
        other.is_some_and(|other| other.count >= self.count)
    }

    /// The same, with time for the answer to one who waits no longer than `left`.
    pub(crate) fn within(self, left: Duration) -> Self {
        let most = (left / 4 * 3).max(Self::TIMEOUT_MIN);
        Self { timeout: self.timeout.min(most), ..self }
    }

    pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_have_no_longer_than_leaves_time_for_the_answer() {
        let ms = Duration::from_millis;
        let replicas = Replicas { count: 1, timeout: ms(600) };
        for (left, timeout) in [(10_000, 600), (800, 600), (400, 300), (0, 1)] {
            assert_eq!(replicas.within(ms(left)).timeout, ms(timeout), "{left}");
        }
    }
}
