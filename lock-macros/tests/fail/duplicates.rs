#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock(key = "k", wait = "2s", retries = 1, wait = "3s", key = "l")]
async fn twice() -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock(key = "k", keys = ["l"])]
async fn both() -> Result<(), AcquireError> {
    Ok(())
}

fn main() {}
