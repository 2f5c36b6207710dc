//! How many files this process may have open: a connection is two of them here, as both of its ends
//! are in this process.

/// Left for the database, the lock store and the runtime.
const RESERVED: u64 = 100;

/// The most connections of one rush, however many the system allows.
const CONNECTIONS_MAX: u64 = 4_000;

/// Where the system does not tell its limit.
#[cfg(not(unix))]
const CONNECTIONS_UNKNOWN: u64 = 1_000;

/// Asks for all that the system grants; many shells start with as little as 256.
#[cfg(unix)]
pub(crate) fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(2 * CONNECTIONS_MAX + RESERVED);
    if soft < wanted {
        // Refused, the rush goes on with fewer connections at a time.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
    }
}

#[cfg(not(unix))]
pub(crate) fn raise_open_files() {}

/// How many requests may be under way at a time.
#[cfg(unix)]
pub(crate) fn connections_max() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(RESERVED, |(soft, _)| soft);
    let connections = (files.saturating_sub(RESERVED) / 2).clamp(1, CONNECTIONS_MAX);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(not(unix))]
pub(crate) fn connections_max() -> usize {
    usize::try_from(CONNECTIONS_UNKNOWN.min(CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}
