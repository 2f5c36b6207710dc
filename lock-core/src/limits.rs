//! The bounds of what a caller may choose, as constants.
//!
//! What is out of bounds is refused before anything is sent, with a
//! [`Rejection`](crate::error::Rejection) that names the option and the bound. The bounds of each
//! option of an acquire are in the table at [`LockOptions`](crate::LockOptions), its defaults too.

use std::time::Duration;

pub use crate::backend::{DURATION_MAX, REPLICAS_MAX, REPLICAS_TIMEOUT_MAX};
pub use crate::election::ELECTION_VALUE_BYTES_MAX;
pub use crate::engine::KEYS_MAX;
pub use crate::mode::PERMITS_MAX;

/// The longest key, in bytes of its encoded form.
pub const KEY_BYTES_MAX: usize = 512;

/// The shortest `hold_limit`: 1 ms. With a shorter one the hold would be over before its waiter has
/// seen it, and a free key could not be had.
pub const HOLD_LIMIT_MIN: Duration = Duration::from_millis(1);

/// The most `retries`.
pub const RETRIES_MAX: u32 = 1_000;

/// The longest `name`, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
