//! The reason why a URL is refused.

use std::borrow::Cow;
use std::fmt;

/// The part of a URL that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlPart {
    /// The URL as a whole: a character that no part of it may hold.
    Whole,
    /// The text before the first colon.
    Scheme,
    /// User and password.
    Login,
    /// The hosts and their ports.
    Hosts,
    /// The text behind the hosts, up to the `?`.
    Path,
    /// The text behind the `?`.
    Parameters,
}

impl fmt::Display for UrlPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "lock URL",
            Self::Scheme => "scheme of a lock URL",
            Self::Login => "login in a lock URL",
            Self::Hosts => "hosts in a lock URL",
            Self::Path => "path of a lock URL",
            Self::Parameters => "parameters of a lock URL",
        })
    }
}

/// The reason why a URL is refused: the part of it, and what would do instead. It repeats nothing
/// that may be a piece of a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad {part}: {reason}")]
pub struct UrlError {
    part: UrlPart,
    reason: Cow<'static, str>,
}

impl UrlError {
    /// Made by a store that reads more out of a URL than its scheme says. The reason is shown, so
    /// it must repeat neither login nor secret parameter.
    pub fn new(part: UrlPart, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { part, reason: reason.into() }
    }

    /// The part that is refused.
    #[must_use]
    pub fn part(&self) -> UrlPart {
        self.part
    }
}
