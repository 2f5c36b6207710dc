#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock(key = "k", timeout = "2s")]
async fn unknown() -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock("order:{id}")]
async fn bare(id: u64) -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock(key = "k", reentrant)]
async fn no_value() -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock(key = "k" wait = "2s")]
async fn no_comma() -> Result<(), AcquireError> {
    Ok(())
}

fn main() {}
