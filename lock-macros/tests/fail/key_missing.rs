#![allow(unused)]

use lock_core::{AcquireError, distributed_lock};

#[distributed_lock(wait = "2s")]
async fn parameters(id: u64) -> Result<(), AcquireError> {
    Ok(())
}

struct Shop;

impl Shop {
    #[distributed_lock]
    async fn receiver(&self) -> Result<(), AcquireError> {
        Ok(())
    }
}

fn main() {}
