#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

#[distributed_lock(wait = "0s", lease = "0ms", hold = "0s")]
async fn zero() -> Outcome {
    Ok(())
}

#[distributed_lock(wait = "-2s", lease = -10)]
async fn negative() -> Outcome {
    Ok(())
}

#[distributed_lock(wait = "2", lease = 10, hold = 1.5)]
async fn no_unit() -> Outcome {
    Ok(())
}

#[distributed_lock(wait = "soon", lease = "2 parsecs", hold = "")]
async fn nonsense() -> Outcome {
    Ok(())
}

#[distributed_lock(wait = "2days", lease = "25h")]
async fn too_long() -> Outcome {
    Ok(())
}

fn main() {}
