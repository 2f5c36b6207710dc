//! Whose locks are at a server: which keys they are, and who is told of a release.

use std::sync::LazyLock;

use super::names;
use super::redisson::CHANNELS;
use super::script::{REDISSON_RIGHTS, RIGHTS, Script};

/// The form in which a lock is written at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Layout {
    /// That of this crate, docs/redis.md.
    Own,
    /// That of Redisson's `RLock`, [`redisson`](super::redisson).
    Redisson,
}

impl Layout {
    /// A channel on which nobody listens, for trying things.
    pub(in crate::redis) fn probe_channel(self, session: &str) -> String {
        match self {
            Self::Own => names::channel(session),
            Self::Redisson => format!("{CHANNELS}:{{probe-{session}}}"),
        }
    }

    /// The check of a user's rights.
    pub(in crate::redis) fn rights(self) -> &'static LazyLock<Script> {
        match self {
            Self::Own => &RIGHTS,
            Self::Redisson => &REDISSON_RIGHTS,
        }
    }

    /// The keys and channels that the rights have to be on.
    pub(in crate::redis) fn reach(self) -> &'static str {
        match self {
            Self::Own => "keys ~lock:* and channels &lock:push:*",
            Self::Redisson => {
                "the names of its locks, keys ~lock:* ~redisson_lock_token:* and channels \
                 &lock:push:* &redisson_lock__channel:*"
            }
        }
    }
}
