//! Generics, lifetimes, constant generics, `impl Trait` arguments. `unsafe` is in a doctest of the
//! crate, as it is forbidden here.
#![deny(warnings)]

use std::fmt::Display;

use lock_core::{AcquireError, LockClient, distributed_lock};

#[distributed_lock(key = "g:{id}:{N}", client = locks)]
async fn generic<T: Display + Send, const N: usize>(
    locks: &LockClient,
    id: T,
) -> Result<String, AcquireError>
where
    T: Clone,
{
    Ok(format!("{id}{N}"))
}

#[distributed_lock(key = "l:{text}", client = locks)]
async fn lifetimes<'a, 'b>(
    locks: &LockClient,
    text: &'a str,
    other: &'b str,
) -> Result<(&'a str, &'b str), AcquireError> {
    Ok((text, other))
}

#[distributed_lock(key = "i:{id}", client = locks)]
async fn argument(
    locks: &LockClient,
    id: impl Display,
    work: impl AsyncFnOnce() -> u8,
) -> Result<u8, AcquireError> {
    Ok(work().await)
}

#[distributed_lock(key = "elided", client = locks)]
async fn elided(locks: &LockClient) -> Result<&LockClient, AcquireError> {
    Ok(locks)
}

#[distributed_lock(key = "cfg:{there}", client = locks)]
async fn conditional(
    locks: &LockClient,
    #[cfg(any())] absent: Absent,
    #[cfg(any(unix, not(unix)))] there: u8,
) -> Result<u8, AcquireError> {
    Ok(there)
}

async fn all(locks: &LockClient) -> Result<(), AcquireError> {
    generic::<_, 3>(locks, 7).await?;
    lifetimes(locks, "a", "b").await?;
    argument(locks, 7, async || 1).await?;
    elided(locks).await?;
    conditional(locks, 1).await?;
    Ok(())
}

pub(crate) fn main() {
    let _ = all;
}
