#![allow(unused)]

use axum::extract::Path;
use lock_core::{AcquireError, distributed_lock};

type Outcome = Result<(), AcquireError>;

const REGION: &str = "eu";

#[distributed_lock(key = "order:{idd}")]
async fn one(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{REGION}:{id}")]
async fn several<const N: usize>(Path((id, name)): Path<(u64, String)>) -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{id}")]
async fn none() -> Outcome {
    Ok(())
}

#[distributed_lock(key = "order:{self.id}")]
async fn no_receiver(id: u64) -> Outcome {
    Ok(())
}

#[distributed_lock(keys = ["a:{x}", "b:{y}", "c:{z}"])]
async fn list(x: u64) -> Outcome {
    Ok(())
}

struct Shop;

#[async_trait::async_trait]
trait Work {
    #[distributed_lock(key = "order:{id}")]
    async fn work(&self, number: u64) -> Outcome {
        Ok(())
    }
}

fn main() {}
