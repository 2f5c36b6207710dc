#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

#[distributed_lock(retries = -1, guard = "g", on_lost = "ignore", admission = 1, reentrant = "yes", crate = "x")]
async fn wrong() -> Outcome {
    Ok(())
}

#[distributed_lock(retries = "one", guard = self, on_lost = cancel, crate = a.b)]
async fn wrong_too() -> Outcome {
    Ok(())
}

#[distributed_lock(retries = 1001)]
async fn too_many() -> Outcome {
    Ok(())
}

#[distributed_lock(name = 7)]
async fn numbered() -> Outcome {
    Ok(())
}

#[distributed_lock(name = concat!("pay", "ment"))]
async fn computed() -> Outcome {
    Ok(())
}

#[distributed_lock(name = "two\nlines")]
async fn two_lines() -> Outcome {
    Ok(())
}

#[distributed_lock(
    name = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
)]
async fn too_long() -> Outcome {
    Ok(())
}

fn main() {}
