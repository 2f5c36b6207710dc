#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

#[distributed_lock(key = "order:{}")]
async fn empty_place(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{0}")]
async fn positional(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{id:?}")]
async fn specification(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{id.max(1)}")]
async fn expression(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{id")]
async fn open(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:id}")]
async fn closed(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "")]
async fn empty(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(keys = [])]
async fn no_keys(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{a}-{b}")]
async fn one_segment(a: String, b: String) -> Outcome {
    Ok(())
}

fn main() {}
