#![allow(unused)]

use std::future::Future;

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock(key = "k", blocking)]
async fn waits_already() -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock(key = "k", blocking)]
fn a_future_outlives_the_lock() -> impl Future<Output = Result<(), AcquireError>> {
    async { Ok(()) }
}

#[distributed_lock(key = "k", blocking = true)]
fn a_word() -> Result<(), AcquireError> {
    Ok(())
}

fn main() {}
