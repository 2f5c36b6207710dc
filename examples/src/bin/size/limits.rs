//! How many requests may be under way: a connection is an open file.

use crate::arguments::Arguments;

/// Left for the lock store, the runtime and the drawing.
#[cfg(unix)]
const RESERVED: u64 = 100;

/// As many as were asked for, fewer where the system grants fewer open files to the connections of
/// an endpoint.
pub(crate) fn in_flight_max(arguments: &Arguments) -> usize {
    let asked = arguments.in_flight as usize;
    match arguments.endpoint {
        Some(_) => asked.min(connections_max(asked)),
        None => asked,
    }
}

#[cfg(unix)]
fn connections_max(asked: usize) -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return asked };
    let wanted = hard.min(asked as u64 + RESERVED);
    // Refused, it goes on with fewer.
    let granted = match soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        true => wanted,
        false => soft,
    };
    usize::try_from(granted.saturating_sub(RESERVED)).unwrap_or(asked).max(1)
}

#[cfg(not(unix))]
fn connections_max(_: usize) -> usize {
    1_000
}
