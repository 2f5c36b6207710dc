#![allow(unused)]

use lock_core::distributed_lock;

#[distributed_lock(key = "k")]
struct Shop;

trait Work {
    #[distributed_lock(key = "k")]
    async fn work(&self);
}

fn main() {}
