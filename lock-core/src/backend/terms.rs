//! The terms on which a claim is opened, and their bounds.

use std::process;
use std::sync::OnceLock;
use std::time::Duration;

use gethostname::gethostname;

use crate::mode::Mode;

#[cfg(doc)]
use super::{Attempt, Fault};

/// The longest name of a host that is passed on.
const HOST_CHARS_MAX: usize = 128;

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
    /// The one who asks, shown in the same place: the label of the client. Without one it is the host and the
    /// process, see [`about`](Self::about).
    pub label: Option<&'static str>,
    /// The replicas that must acknowledge a grant before an attempt tells of it; fewer are a
    /// [`Fault::not_replicated`]. None is asked for where
    /// [`Capabilities::replicas`](super::Capabilities::replicas) does not hold.
    pub replicas: Option<Replicas>,
}

/// The way in which a claim comes by a key that others hold, for a store with one type of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It is told that it is blocked, and nothing is left of it.
    Tries,
    /// It stands in line.
    Queues,
    /// It takes the key from them.
    Forces,
}

impl Manner {
    /// That of a claim on these terms, unless it is a forced one.
    pub(crate) fn of(terms: &Terms) -> Self {
        if terms.queues { Self::Queues } else { Self::Tries }
    }
}

impl Terms {
    /// Those of a claim that stands in line for the key, exclusively and for one token, and says
    /// nothing of itself.
    #[must_use]
    pub const fn exclusive(lease: Duration) -> Self {
        Self {
            lease,
            mode: Mode::Exclusive,
            tokens_max: 1,
            tokens_likely: 0,
            queues: true,
            name: None,
            label: None,
            replicas: None,
        }
    }

    /// The text of a claim about itself, for whoever looks at a stuck lock: who asks, and what for.
    /// That is `checkout@web-3 name=pay an order`, or `host=web-3 pid=4711` without a label and a
    /// name. At most 450 bytes, no control characters.
    #[must_use]
    pub fn about(&self) -> String {
        let who = who(self.label);
        match self.name {
            Some(name) => format!("{who} name={name}"),
            None => who.to_owned(),
        }
    }
}

/// The one who asks: the client of this label, or this process of its host.
pub(crate) fn who(label: Option<&'static str>) -> &'static str {
    static HERE: OnceLock<String> = OnceLock::new();
    let here = || {
        let host = gethostname();
        let host: String = host.to_string_lossy().escape_debug().take(HOST_CHARS_MAX).collect();
        format!("host={host} pid={}", process::id())
    };
    label.unwrap_or_else(|| HERE.get_or_init(here))
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
    fn a_claim_says_who_asks_and_what_for() {
        let mut terms =
            Terms { name: Some("POST /buy"), ..Terms::exclusive(Duration::from_secs(1)) };
        let here = terms.about();
        let ends = format!(" pid={} name=POST /buy", process::id());
        assert!(here.starts_with("host=") && here.ends_with(&ends), "{here}");
        terms.label = Some("checkout@web-3");
        assert_eq!(terms.about(), "checkout@web-3 name=POST /buy");
        terms.name = None;
        assert_eq!(terms.about(), "checkout@web-3");
    }

    #[test]
    fn replicas_have_no_longer_than_leaves_time_for_the_answer() {
        let ms = Duration::from_millis;
        let replicas = Replicas { count: 1, timeout: ms(600) };
        for (left, timeout) in [(10_000, 600), (800, 600), (400, 300), (0, 1)] {
            assert_eq!(replicas.within(ms(left)).timeout, ms(timeout), "{left}");
        }
    }
}
