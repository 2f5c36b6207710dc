//! The bounds of what a caller may choose, as constants.
//!
//! A value out of bounds is refused before anything is sent, with a
//! [`Rejection`](crate::error::Rejection) that names the option and the bound. The bounds of each
//! option of an acquire are in the table at [`LockOptions`](crate::LockOptions), its defaults too.

use std::time::Duration;

/// The longest key, in bytes of its encoded form.
pub const KEY_BYTES_MAX: usize = 512;

/// The longest `prefix` of a client, in bytes of its encoded form.
pub const PREFIX_BYTES_MAX: usize = 128;

/// The shortest `hold_limit`: 1 ms. With a shorter one the hold would be over before its waiter has
/// seen it, and a free key could not be had.
pub const HOLD_LIMIT_MIN: Duration = Duration::from_millis(1);

/// The most `retries`.
pub const RETRIES_MAX: u32 = 1_000;

/// The longest `name`, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The longest `wait`, `lease`, `hold_limit` and `linger`: 24 hours.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The most `replicas` that a grant can wait for.
pub const REPLICAS_MAX: u32 = 32;

/// The longest time that a grant can wait for its `replicas`: 1 s, as the store has 2 s to answer
/// a request.
pub const REPLICAS_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// The most permits of a key: 1,024.
pub const PERMITS_MAX: u32 = 1_024;

/// The longest value that a candidate can publish: 1,024 bytes.
pub const ELECTION_VALUE_BYTES_MAX: usize = 1_024;

/// The most keys that can be locked at once: they are taken one after the other.
pub const KEYS_MAX: usize = 64;
