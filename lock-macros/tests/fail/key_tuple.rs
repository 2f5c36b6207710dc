#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

#[distributed_lock(key = (id, "order:{}"))]
async fn order(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = ())]
async fn empty(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = ("order:{}:{}", id))]
async fn too_few(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = ("order:{}", id, id + 1))]
async fn too_many(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = ("order:{}:{0}", id))]
async fn twice(id: u64) -> Outcome {
    Ok(())
}

fn main() {}
