//! One call of a function under `#[distributed_lock]`: client, keys, options.

use std::future::Future;
use std::time::Duration;

use super::{Held, KeySet, OneKey};
use crate::engine::clock;
use crate::{AcquireError, Key, LockClient, LockGuard, LockOptions, Rejection};

/// How long one try of a function under `#[distributed_lock]` waits, unless it says so.
const WAIT: Duration = Duration::from_secs(2);
/// How many further tries it makes.
const RETRIES: u32 = 1;
/// The most keys of one call: they are taken one after the other.
pub(super) const KEYS_MAX: usize = 64;

/// A call that can take its lock or locks.
pub trait Acquire: Send {
    /// What it then holds.
    type Held: Held + Send;
    /// Takes the lock. Dropping the future gives back what was taken by then.
    fn acquire(self) -> impl Future<Output = Result<Self::Held, AcquireError>> + Send;
}

/// Client, keys and options of a call.
#[derive(Debug)]
#[must_use]
pub struct Call<K> {
    client: Option<LockClient>,
    keys: K,
    options: LockOptions,
}

impl<K> Call<K> {
    /// A call with these options, which began as [`options`] has them.
    pub fn new(client: Option<LockClient>, keys: K, options: LockOptions) -> Self {
        Self { client, keys, options }
    }
}

/// What a call does not say is the client's default, but for `wait` (2 s) and `retries` (1).
#[must_use]
pub fn options(client: Option<&LockClient>) -> LockOptions {
    client.map(LockClient::defaults).unwrap_or_default().with_wait(WAIT).with_retries(RETRIES)
}

fn no_client() -> AcquireError {
    AcquireError::Rejected(Rejection::NoClient)
}

impl Acquire for Call<OneKey> {
    type Held = LockGuard;

    async fn acquire(self) -> Result<LockGuard, AcquireError> {
        let client = self.client.as_ref().ok_or_else(no_client)?;
        client.lock(self.keys.0).options(self.options).acquire().await
    }
}

impl Acquire for Call<KeySet> {
    type Held = Vec<LockGuard>;

    async fn acquire(self) -> Result<Vec<LockGuard>, AcquireError> {
        let client = self.client.as_ref().ok_or_else(no_client)?;
        let keys = bounded(self.keys)?;
        let started = clock::now();
        let mut guards = Vec::with_capacity(keys.len());
        for key in keys {
            let options = share(self.options, clock::now().saturating_duration_since(started));
            guards.push(client.lock(key).options(options).acquire().await?);
        }
        Ok(guards)
    }
}

/// `when = expr`: nothing to take where it was false.
impl<C: Acquire> Acquire for Option<C> {
    type Held = Option<C::Held>;

    async fn acquire(self) -> Result<Option<C::Held>, AcquireError> {
        match self {
            Some(call) => call.acquire().await.map(Some),
            None => Ok(None),
        }
    }
}

fn bounded(keys: KeySet) -> Result<Vec<Key>, AcquireError> {
    let keys = keys.0?;
    match keys.len() {
        1..=KEYS_MAX => Ok(keys),
        given => Err(Rejection::KeyCount { given, max: KEYS_MAX }.into()),
    }
}

/// The part of the budget `wait * (1 + retries)` that is left for the next key, as tries of equal
/// length. So several keys together wait no longer than one would.
fn share(options: LockOptions, elapsed: Duration) -> LockOptions {
    let tries = options.retries.saturating_add(1);
    let left = options.wait.saturating_mul(tries).saturating_sub(elapsed);
    if left.is_zero() || options.wait.is_zero() {
        return options.with_wait(Duration::ZERO).with_retries(0);
    }
    let tries_left = left.as_nanos().div_ceil(options.wait.as_nanos());
    let tries_left = u32::try_from(tries_left).unwrap_or(tries).clamp(1, tries);
    options.with_wait(left / tries_left).with_retries(tries_left - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(wait_ms: u64, retries: u32) -> LockOptions {
        LockOptions::new().with_wait(Duration::from_millis(wait_ms)).with_retries(retries)
    }

    #[test]
    fn the_first_of_several_keys_has_the_whole_budget() {
        assert_eq!(share(options(2000, 1), Duration::ZERO), options(2000, 1));
    }

    #[test]
    fn later_keys_have_what_is_left_of_it() {
        let cases = [
            (options(2000, 1), 2, options(1999, 1)),
            (options(2000, 1), 2000, options(2000, 0)),
            (options(2000, 1), 3500, options(500, 0)),
            (options(2000, 1), 4000, options(0, 0)),
            (options(2000, 1), 9000, options(0, 0)),
            (options(0, 5), 1, options(0, 0)),
        ];
        for (given, elapsed_ms, expected) in cases {
            assert_eq!(share(given, Duration::from_millis(elapsed_ms)), expected, "{elapsed_ms}");
        }
    }

    #[test]
    fn no_key_and_too_many_keys_are_refused() {
        let keys = |n: usize| KeySet::collect((0..n).map(|i| format!("k{i}")));
        assert!(bounded(keys(0)).unwrap_err().is_rejected());
        assert!(bounded(keys(KEYS_MAX)).is_ok());
        assert!(bounded(keys(KEYS_MAX + 1)).unwrap_err().is_rejected());
    }
}
