#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock(key = "k")]
fn plain() -> Result<(), AcquireError> {
    Ok(())
}

// A future of another form hides where its body is.
#[distributed_lock(key = "k")]
fn future() -> impl Future<Output = Result<(), AcquireError>> {
    async { Ok(()) }
}

fn main() {}
