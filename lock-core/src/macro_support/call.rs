//! One call of a function under `#[distributed_lock]`: client, keys, options.

use std::future::Future;
use std::time::Duration;

use super::Held;
use crate::error::Rejection;
use crate::lockable::Lockable;
use crate::{AcquireError, LockClient, LockOptions};

/// How long one try of a function under `#[distributed_lock]` waits, unless it says so.
const WAIT: Duration = Duration::from_secs(2);
/// How many further tries it makes.
const RETRIES: u32 = 1;

/// A call that can take its lock or locks.
pub trait Acquire: Send {
    /// The guards that it then holds, if any.
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

/// Options that a call does not name are the client's defaults, but for `wait` (2 s) and `retries`
/// (1).
#[must_use]
pub fn options(client: Option<&LockClient>) -> LockOptions {
    client.map(LockClient::defaults).unwrap_or_default().with_wait(WAIT).with_retries(RETRIES)
}

fn no_client() -> AcquireError {
    AcquireError::Rejected(Rejection::NoClient)
}

impl<K: Lockable + Send> Acquire for Call<K>
where
    K::Guard: Send,
{
    type Held = K::Guard;

    async fn acquire(self) -> Result<K::Guard, AcquireError> {
        let client = self.client.as_ref().ok_or_else(no_client)?;
        client.begin(self.keys).options(self.options).acquire().await
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
