#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

#[distributed_lock(shared, permits = 5)]
async fn both() -> Outcome {
    Ok(())
}

#[distributed_lock(permits = 5, shared)]
async fn both_in_the_other_order() -> Outcome {
    Ok(())
}

#[distributed_lock(shared = true)]
async fn shared_with_a_value() -> Outcome {
    Ok(())
}

#[distributed_lock(shared, shared)]
async fn shared_twice() -> Outcome {
    Ok(())
}

#[distributed_lock(permits)]
async fn no_number() -> Outcome {
    Ok(())
}

#[distributed_lock(permits = 0)]
async fn none() -> Outcome {
    Ok(())
}

#[distributed_lock(permits = 1025)]
async fn too_many() -> Outcome {
    Ok(())
}

#[distributed_lock(permits = -1)]
async fn negative() -> Outcome {
    Ok(())
}

#[distributed_lock(permits = "5")]
async fn a_text() -> Outcome {
    Ok(())
}

#[distributed_lock(shared, min_hold = "10s")]
async fn shared_for_so_long() -> Outcome {
    Ok(())
}

#[distributed_lock(keys = ["a", "b"], min_hold = "10s")]
async fn several_for_so_long() -> Outcome {
    Ok(())
}

fn main() {}
