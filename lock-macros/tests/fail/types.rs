#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

struct Opaque;

#[distributed_lock(key = "order:{id}")]
async fn value_without_display(id: Opaque) -> Outcome {
    Ok(())
}

#[distributed_lock(key = id)]
async fn not_a_key(id: f64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "k", client = name)]
async fn not_a_client(name: String) -> Outcome {
    Ok(())
}

#[distributed_lock(wait = 2 * 3)]
async fn not_a_duration() -> Outcome {
    Ok(())
}

#[distributed_lock(when = 1)]
async fn not_a_bool() -> Outcome {
    Ok(())
}

#[distributed_lock(permits = 2_i64 * 3)]
async fn not_a_number_of_permits() -> Outcome {
    Ok(())
}

fn main() {}
